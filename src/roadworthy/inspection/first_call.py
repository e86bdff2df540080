"""The first call of a module, undone: what lies outside of it is then as if nobody had called."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import Context, copy_context

from roadworthy.inspection.entered import Entered
from roadworthy.inspection.keeping import Keeper
from roadworthy.inspection.reach import Slot


class FirstCall:
    """What a first call finds wherever it can reach, for a later call that fails by what it left.

    A snapshot of the module knows the module alone: not the globals, the defaults and the
    attributes of functions that its code writes.
    """

    def __init__(self, roots: Sequence[Slot]) -> None:
        self._keeper = Keeper()
        self._keeper.keep(roots)
        self._entered = Entered(self._keeper.keep)
        self._context = copy_context()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Remembers what each function finds when it is first entered, until the block ends."""
        try:
            with self._entered.watching():
                yield
        finally:
            self._keeper.iterators.unguard()

    def undone(self, act: Callable[[], None]) -> None:
        """Acts as if there had been no call, and undoes that as well."""
        self.undo()
        try:
            Context().run(act)  # a new one, in which no context variable is set
        finally:
            self.undo()

    def undo(self) -> None:
        """Puts back what the calls could reach."""
        self._keeper.put_back()
        for variable, value in copy_context().items():
            with suppress(LookupError):  # was not set, has no default: nothing can put that back
                before = self._context if variable in self._context else Context()
                was = before.run(variable.get)
                if was is not value:
                    variable.set(was)
