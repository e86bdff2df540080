"""The one rule of putting back: what is as it was is left alone, what cannot be written is told.

Whatever holds a value says what it holds now. It is written only where that is another object;
constants, members of an Enum and frozen objects are never touched. What did change and does not
let itself be set is a finding, after all the rest was put back.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

from roadworthy.errors import ExportError, Finding, RoadworthyError


class Holder(Protocol):
    """What holds one value."""

    def get(self) -> Any:
        """The value that it holds; `MISSING` where it holds none."""

    def put(self, value: Any) -> None:
        """Makes it hold another one."""


# Puts something back as it was; False where it is not so, and cannot be made so.
Restore = Callable[[], bool]
MISSING = object()


def put_back(holder: Holder, value: Any) -> bool:
    """Makes a holder hold what it held; False where it holds something else and cannot be set."""
    return holder.get() is value or _written(
        lambda: holder.get() is value, lambda: holder.put(value)
    )


def unless(same: Callable[[], bool], write: Callable[[], object]) -> Restore:
    """What writes if something is no longer the same."""
    return lambda: same() or _written(same, write)


def _written(same: Callable[[], bool], write: Callable[[], object]) -> bool:
    with suppress(Exception):  # whatever a class says to those who write to it
        write()
    return same()


# The names of what the user lets us use up, for as long as an export runs.
_ignored: list[str] = []


@contextmanager
def ignoring(names: Iterable[str]) -> Iterator[None]:
    """What has one of these names, or is held by it, may be changed until the block ends."""
    before = [*_ignored]
    _ignored.extend(names)
    try:
        yield
    finally:
        _ignored[:] = before


def is_ignored(name: str) -> bool:
    """Whether the user said that what has this name does not matter, by its root or without it."""
    return any(covers(each, place) for each in _ignored for place in (name, name.partition(".")[2]))


def covers(said: str, name: str) -> bool:
    """Whether a name that a user said is this place, or one that holds it."""
    dotted, wanted = (each.replace("[", ".").replace("]", "") for each in (name, said))
    return dotted == wanted or dotted.startswith(f"{wanted}.")


def tell_lost(paths: Sequence[str], roots: Sequence[str] = ()) -> None:
    """An error for what a call changed and nothing can put back; with what is being raised.

    `roots` are the names that paths begin with, and that `ignore=` leaves out.
    """
    paths = [path for path in paths if not is_ignored(path)]
    raised = sys.exc_info()[1]
    if not paths or (raised is not None and not isinstance(raised, Exception)):
        return
    before = raised.findings if isinstance(raised, RoadworthyError) else ()
    lost = [
        Finding(
            code="RW112",
            where=path.partition(".<")[0],  # what C code holds inside of it has no name
            what="a call changes it, and it does not let itself be put back as it was",
            hint="leave it alone in what is exported; state belongs in a tensor attribute of the "
            "module, which is declared: memory={…}; if it does not matter, and may stay changed: "
            f"ignore=[{_attribute(path, roots)!r}]",
        )
        for path in dict.fromkeys(paths)
    ]
    raise ExportError(findings=[*before, *lost])


def _attribute(path: str, roots: Sequence[str]) -> str:
    for root in roots:
        path = path.removeprefix(f"{root}.")
    return path.partition(".<")[0].partition("[")[0]


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """An item of a dictionary, a list or a deque; an attribute by its object's `__dict__`."""

    holder: Any
    key: Any

    def get(self) -> Any:
        if isinstance(self.holder, dict):  # past the __missing__ of a defaultdict
            return dict.get(self.holder, self.key, MISSING)
        try:
            return self.holder[self.key]
        except IndexError:
            return MISSING

    def put(self, value: Any) -> None:
        self.holder[self.key] = value


@dataclass(frozen=True, slots=True, eq=False)
class ClassAttribute:
    """What stands in a class itself."""

    kind: type
    name: str

    def get(self) -> Any:
        return vars(self.kind).get(self.name, MISSING)

    def put(self, value: Any) -> None:
        # Past a metaclass that forbids it: what is put back was there before.
        type.__setattr__(self.kind, self.name, value)


@dataclass(frozen=True, slots=True, eq=False)
class ObjectAttribute:
    """What an object keeps outside of its `__dict__`, by the name of the attribute."""

    owner: object
    name: str

    def get(self) -> Any:
        return getattr(self.owner, self.name, MISSING)

    def put(self, value: Any) -> None:
        # Past the __setattr__ of a frozen dataclass: what is put back was there before.
        object.__setattr__(self.owner, self.name, value)


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """What an object keeps in a slot of one of its classes."""

    descriptor: Any
    owner: object

    def get(self) -> Any:
        try:
            return self.descriptor.__get__(self.owner)
        except AttributeError:  # not set
            return MISSING

    def put(self, value: Any) -> None:
        self.descriptor.__set__(self.owner, value)


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """A variable of a function that another function sees."""

    cell: Any

    def get(self) -> Any:
        try:
            return self.cell.cell_contents
        except ValueError:  # empty
            return MISSING

    def put(self, value: Any) -> None:
        self.cell.cell_contents = value


@dataclass(frozen=True, slots=True, eq=False)
class Default:
    """What an argument of a function is where nobody gives it."""

    function: Any
    index: int

    def get(self) -> Any:
        defaults = self.function.__defaults__ or ()
        return defaults[self.index] if self.index < len(defaults) else MISSING

    def put(self, value: Any) -> None:
        defaults = list(self.function.__defaults__ or ())
        defaults[self.index] = value
        self.function.__defaults__ = tuple(defaults)
