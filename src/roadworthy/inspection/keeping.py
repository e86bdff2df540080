"""Everything that a call can reach, put back as it was: globals, closures and classes included."""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial

import torch

from roadworthy.inspection.iterators import KeptIterators, is_iterator
from roadworthy.inspection.putting_back import Restore, put_back, tell_lost
from roadworthy.inspection.reach import FUNCTIONS, MODULE_INTERNALS, Reach, Slot, is_plain
from roadworthy.inspection.snapshot import kept

# What these hold is put back slot by slot; everything else puts back its own inside.
_BY_SLOT = (type, types.FunctionType, types.ModuleType, types.CellType)
# What people hang attributes on although it is no object of theirs.
_WITH_ATTRIBUTES = (types.FunctionType, torch.Tensor)


class Keeper:
    """Remembers how things are when they are first met, and puts them back."""

    def __init__(self) -> None:
        self.reach = Reach()
        self._undo: list[tuple[str, Restore]] = []
        self.iterators = KeptIterators()

    def keep(self, roots: Iterable[Slot], names: frozenset[str] = frozenset()) -> None:
        """Remembers what can be reached from the roots, as far as it is not remembered already."""
        self.reach.names |= names
        for slot in self.reach.walk(roots):
            above = self.reach.slots.get(slot.parent)
            undo = [] if above and _owns(above.value, slot.value) else kept(slot.value)
            if isinstance(slot.value, torch.nn.Module):
                # The walk passes by the dicts that hold buffers: their names are the module's.
                for internal in MODULE_INTERNALS:
                    undo += kept(vars(slot.value)[internal])
            if isinstance(slot.value, _WITH_ATTRIBUTES):
                # What a call adds has no slot yet, which could put it back.
                undo += kept(vars(slot.value))
            if not is_iterator(above and above.value) and is_iterator(slot.value):
                self.iterators.add(slot.name, slot.value, slot.holder, guarded=True)
            outer = above is None or isinstance(above.value, _BY_SLOT)
            if slot.holder is not None and outer and not isinstance(slot.value, FUNCTIONS):
                undo.append(partial(put_back, slot.holder, slot.value))
            self._undo += [(slot.name, restore) for restore in undo]

    def put_back(self) -> None:
        """Puts everything back; an error for what changed and cannot be."""
        lost = [name for name, restore in reversed(self._undo) if not restore()]
        tell_lost([*lost, *self.iterators.put_back()])


def _owns(iterator: object, value: object) -> bool:
    """Whether a list may be an iterator's own, as that of `cycle` is.

    Nobody may write to one: C code counts on its length, and reads beyond the end of a shorter one.
    """
    if not isinstance(value, list) or isinstance(iterator, types.GeneratorType):
        return False
    return hasattr(type(iterator), "__next__") and not is_plain(iterator)


@contextmanager
def all_kept(roots: Iterable[Slot], names: frozenset[str]) -> Iterator[None]:
    """Whatever happens inside, what can be reached from the roots comes back."""
    keeper = Keeper()
    keeper.keep(roots, names)
    try:
        yield
    finally:
        keeper.put_back()
