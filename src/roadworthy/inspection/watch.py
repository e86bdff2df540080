"""Watching a policy that is called a few times: what it leaves behind, and what it then reads."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from roadworthy.inspection.asking import Question
from roadworthy.inspection.entered import Entered
from roadworthy.inspection.flow import Flow, Leaving
from roadworthy.inspection.keeping import Keeper, all_kept
from roadworthy.inspection.moment import Moment, moment
from roadworthy.inspection.putting_back import put_back
from roadworthy.inspection.reach import Slot
from roadworthy.inspection.standins import Ledger, stand_in
from roadworthy.inspection.trail import Trail
from roadworthy.spec.tolerance import SAME_POLICY

# One call with the given number of an example; everything that it returns.
Call = Callable[[int], Sequence[torch.Tensor]]
# What is built at the first calls and kept is no state: it is there before the looking begins.
WARMING = 2
# Clocks that only translate where a moment is given: so many arguments ask nothing.
_GIVEN = {"gmtime": 1, "localtime": 1, "ctime": 1, "asctime": 1, "strftime": 2}
# The generators that every process has, as people import them.
GENERATORS = ("random", "numpy.random")


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """A slot that a call writes and a later call reads, and the line that reads it."""

    slot: Slot
    line: str


@dataclass(frozen=True, slots=True, eq=False)
class Sighting:
    """What the calls showed."""

    states: tuple[State, ...]
    questions: tuple[Question, ...]


def watched(call: Call, roots: Sequence[Slot], exempt: Callable[[str], bool]) -> Sighting:
    """What calls leave behind and read again, and what they ask; all is put back."""
    keeper = Keeper()
    keeper.keep(roots)
    entered = Entered(keeper.keep)

    hidden: list[Slot] = []

    def everything() -> Iterator[Slot]:
        yield from roots
        yield from entered.roots()
        yield from hidden

    try:
        with entered.watching():
            call(0)
        if entered.hidden(keeper.reach):  # perhaps only made by this call, and held since
            hidden = entered.hidden(moment(everything, entered.names).reach)
            keeper.keep(hidden)
        for index in range(1, WARMING):
            call(index)
        entered.questions.clear()
        names = entered.names
        before, generators = moment(everything, names), _generators()
        with entered.watching():
            call(WARMING)
        moved = [each for each in GENERATORS if _generators()[each] != generators[each]]
        after = moment(everything, names)
        written = [each for each in before.written_until(after) if not exempt(each.name)]
        states = [*_read_again(call, written, after, everything, names)]
        questions = tuple(_questions(call, entered, moved, after, everything, names))
        keeper.put_back()
        fresh = moment(everything, names)
        results = call(WARMING)
        began = moment(everything, names)
        # What a first call builds must not depend on its inputs, and must not change the outputs.
        built = after.otherwise_in(began)
        later = call(WARMING)
        if not _alike(results, later) and _alike(later, call(WARMING)):
            built += fresh.written_until(began)
        latched = [each for each in began.beside(built, written) if not exempt(each.name)]
        states += _read_again(call, latched, began, everything, names)
        return Sighting(tuple(states), questions)
    finally:
        keeper.put_back()


def _alike(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    return all(SAME_POLICY.close(a, b) for a, b in zip(one, other, strict=True))


def _read_again(
    call: Call,
    written: Sequence[Slot],
    after: Moment,
    everything: Callable[[], Iterator[Slot]],
    names: frozenset[str],
) -> Iterator[State]:
    if not written:
        return
    untouched = _untouched(written, after)
    usual = Trail()
    with all_kept(everything(), names), usual.followed():
        call(WARMING)
    for slot in written:
        ledger = Ledger()
        with all_kept(everything(), names):
            if not put_stand_in(slot, ledger, after):
                yield State(slot, "")
                continue
            line = use_of(call, ledger, untouched, usual)
        if line is not None:
            yield State(slot, line)


def _questions(
    call: Call,
    entered: Entered,
    moved: Sequence[str],
    after: Moment,
    everything: Callable[[], Iterator[Slot]],
    names: frozenset[str],
) -> Iterator[Question]:
    """What is asked and used; a clock whose answer is only kept, for a log, is not."""
    asked = list(entered.questions)
    for name in moved:
        yield next((each for each in asked if each.name == name), Question(name, ""))
    for question in asked:
        if question.name in GENERATORS:
            continue
        module, _, name = question.name.partition(".")
        if module == "time":
            ledger = Ledger()
            clock = vars(time)[name]
            with all_kept(everything(), names), _stopped(name, clock, ledger, after) as answered:
                line = use_of(call, ledger, [], None)
            if answered and line is None:
                continue
        yield question
    if "argv" in names:
        ledger = Ledger()
        with all_kept(everything(), names), _replaced(sys, "argv", stand_in(sys.argv, ledger)):
            line = use_of(call, ledger, [], None)
        if line is not None:
            yield Question("sys.argv", line)


@contextmanager
def _replaced(holder: object, name: str, value: object) -> Iterator[None]:
    before = getattr(holder, name)
    setattr(holder, name, value)
    try:
        yield
    finally:
        setattr(holder, name, before)


@contextmanager
def _stopped(name: str, clock: Any, ledger: Ledger, after: Moment) -> Iterator[list[None]]:
    """A clock whose answers are stand-ins; gives a list that grows with each of them."""
    answered: list[None] = []

    def answer(*arguments: Any) -> Any:
        answered.append(None)
        given = name in _GIVEN and len(arguments) >= _GIVEN[name] and None not in arguments
        return clock(*arguments) if given else stand_in(clock(*arguments), ledger)

    for slot in after.reach.slots.values():
        if slot.value is clock and slot.holder is not None:
            slot.holder.put(answer)
    with _replaced(time, name, answer):
        yield answered


def _generators() -> dict[str, object]:
    numpy = np.random.get_state(legacy=False)
    return {"random": random.getstate(), "numpy.random": repr(numpy)}


def use_of(
    call: Call, ledger: Ledger, untouched: Sequence[torch.Tensor], usual: Trail | None
) -> str | None:
    """The line at which a call used the stand-ins, empty where it is not known; or None."""
    flow, trail = Flow(ledger, untouched), Trail()
    try:
        with trail.followed(), Leaving(flow, ledger), flow:
            results = call(WARMING)
    except Exception:  # no value of another kind could stand there: somebody looked at it
        return ledger.line
    if ledger.used:
        return ledger.line
    if flow.reaches(results):
        return ""
    if usual is not None and (trail.first_beyond(usual) or usual.first_beyond(trail)):
        return ""
    return None


def put_stand_in(slot: Slot, ledger: Ledger, after: Moment) -> bool:
    """Whether a stand-in could be put everywhere where the value of a slot is held."""
    slots = after.reach.slots
    # One that has moved was drawn from, and PyTorch takes nothing else in its place.
    if isinstance(slot.value, torch.Generator):
        return False
    while (holder := slot.holder) is None:
        above = slots.get(slot.parent)
        # Tuples and sets are made anew as a whole. Into what C code holds nothing can be put.
        if above is None or not isinstance(above.value, (tuple, set, frozenset)):
            return False
        slot = above
    value = slot.value
    made = stand_in(value, ledger)
    shared = isinstance(value, (list, dict, set)) or hasattr(value, "__dict__")
    for other in slots.values() if shared else ():
        if other.value is value and other.holder is not None:
            put_back(other.holder, made)
    return put_back(holder, made)


def _untouched(written: Sequence[Slot], after: Moment) -> list[torch.Tensor]:
    """The tensors that no call writes: the weights, above all."""
    moved = {id(slot.value) for slot in written}
    return [
        slot.value
        for slot in after.reach.slots.values()
        if isinstance(slot.value, torch.Tensor) and id(slot.value) not in moved
    ]
