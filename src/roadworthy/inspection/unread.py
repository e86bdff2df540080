"""Values that a module holds and that a call does not use, by their stand-ins."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from roadworthy.inspection.keeping import all_kept
from roadworthy.inspection.moment import moment
from roadworthy.inspection.reach import Slot, root
from roadworthy.inspection.standins import Ledger
from roadworthy.inspection.watch import Call, put_stand_in, use_of

Wanted = Callable[[Slot], bool]


def held(module: torch.nn.Module) -> dict[str, Slot]:
    """Everything that can be reached from a module, by name."""
    return moment(lambda: [root("", module)], frozenset()).reach.slots


def read(call: Call, module: torch.nn.Module, slots: list[Slot]) -> Iterator[bool]:
    """For each slot whether a call uses its value; what it holds is put back."""
    now = moment(lambda: [root("", module)], frozenset())
    for slot in slots:
        ledger = Ledger()
        with all_kept([root("", module)], frozenset()):
            put = put_stand_in(slot, ledger, now)
            yield put and use_of(call, ledger, [], None) is not None
