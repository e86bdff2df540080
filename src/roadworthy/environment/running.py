"""What runs when an environment is stepped: the author's code, and what it asks the world."""

from __future__ import annotations

import random
import types
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from roadworthy.environment.source import EnvironmentSource, results
from roadworthy.environment.ticks import eager
from roadworthy.errors import Finding
from roadworthy.inspection.asking import Question
from roadworthy.inspection.entered import Entered
from roadworthy.inspection.keeping import Keeper
from roadworthy.inspection.moment import Moment, moment
from roadworthy.inspection.putting_back import put_back
from roadworthy.inspection.reach import (
    ATOMS,
    Slot,
    is_plain,
    root,
)
from roadworthy.inspection.snapshot import preserved
from roadworthy.inspection.standins import Ledger
from roadworthy.inspection.watch import GENERATORS, Call, put_stand_in, use_of, watched

# A counter moves at every step; what moves later, the long run sees.
WATCHED_STEPS = 3
_CONTAINERS = (list, tuple, dict, set, deque)
_GENERATORS = (random.Random, np.random.Generator, np.random.RandomState, torch.Generator)
_DRAWS = "the environment draws random numbers here, and a file must not"
_NO_DRAWS = (
    "switch the noise off for the export, or let step() draw it into a tensor and register that "
    "as an Input"
)


@dataclass(frozen=True, slots=True, eq=False)
class Running:
    """The code that ran, and of it what the captured step ran.

    findings  what it asked the world, and the state that no attribute leads to
    """

    codes: frozenset[types.CodeType]
    codes_of_step: frozenset[types.CodeType]
    findings: tuple[Finding, ...]


def halves(source: EnvironmentSource) -> Call:
    """Both halves of a policy step as one call: everything that they give."""
    # Asked now: looking through the environment later would look at the stand-ins in it.
    mode = type(eager(source))

    def call(index: int) -> Sequence[torch.Tensor]:
        with mode():
            found: list[torch.Tensor] = []
            for half in (source.step, source.substep):
                outputs, memory = results(source, half, torch.Tensor.clone)
                found += [*outputs.values(), *memory.values()]
            return found

    return call


def running(source: EnvironmentSource) -> Running:
    """What runs in a few steps and a reset; everything is put back."""
    call = halves(source)
    roots = [root(name, value) for name, value in source.roots.items()]
    keeper = Keeper()
    keeper.keep(roots)
    entered = Entered(keeper.keep)

    def everything() -> Iterator[Slot]:
        yield from roots
        yield from entered.roots()

    try:
        with entered.watching():
            call(0)
            codes_of_step = frozenset(entered.codes)
            _live(source, 1)
        before = moment(everything, entered.names)
        with entered.watching():
            _live(source, WATCHED_STEPS)
            call(0)
        after = moment(everything, entered.names)
        found: list[Finding] = []
        for slot in before.written_until(after):
            if _is_elsewhere(slot):
                with preserved(*source.roots.values()):
                    line = _used(call, slot, after)
                if line is not None:
                    found.append(_state(slot, line))
    finally:
        keeper.put_back()
    asked = watched(call, roots, lambda name: True).questions
    # TorchScript asks PyTorch whether it is captured, wherever it is called.
    found += [_question(each) for each in asked if not each.name.startswith("torch.")]
    return Running(frozenset(entered.codes), codes_of_step, tuple(dict.fromkeys(found)))


def _used(call: Call, slot: Slot, after: Moment) -> str | None:
    """The line at which the captured step uses what a slot holds, empty where it is not known."""
    value = slot.value
    if isinstance(value, torch.Generator):  # nothing else can be put in its place
        before = value.get_state()
        call(0)
        return None if torch.equal(before, value.get_state()) else ""
    ledger = Ledger()
    put_stand_in(slot, ledger, after)
    line = use_of(call, ledger, [], None)
    if slot.holder is not None:
        put_back(slot.holder, value)
    return line


def _live(source: EnvironmentSource, steps: int) -> None:
    with eager(source):
        source.restart()
        for _ in range(steps):
            source.env.step(source.actor(source.env.compute_observations()))


def _is_elsewhere(slot: Slot) -> bool:
    """Whether a slot is no attribute of the environment or the actor: those are found otherwise.

    What grows is looked at here wherever it is, for its length has no place of its own; and so is
    what C code keeps: generators, iterators.
    """
    value = slot.value
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return False
    if isinstance(value, _CONTAINERS):
        items = value.values() if isinstance(value, dict) else value
        return not any(isinstance(each, torch.Tensor) for each in items)
    if isinstance(value, _GENERATORS):
        return True
    inside = slot.name.partition(".")[0].partition("[")[0] in ("env", "actor")
    return not inside or not (isinstance(value, ATOMS) or is_plain(value))


def _state(slot: Slot, line: str) -> Finding:
    where = f"{slot.name} at {line}" if line else slot.name
    if isinstance(slot.value, _GENERATORS):
        return Finding(code="RW123", where=where, what=_DRAWS, hint=_NO_DRAWS)
    return Finding(
        code="RW121",
        where=where,
        what="changes while the environment runs, and the captured step reads it: it would be "
        "frozen",
        hint="keep it in a tensor attribute of the environment, and register that as Memory where "
        "the step writes it, as Input where the world does",
    )


def _question(question: Question) -> Finding:
    if question.name in GENERATORS:
        return Finding(
            code="RW123",
            where=question.line or question.name,
            what=_DRAWS,
            hint=_NO_DRAWS,
        )
    return Finding(
        code="RW124",
        where=question.line,
        what=f"the captured step asks the world outside: {question.name}; a graph would freeze "
        "the answer of the moment",
        hint="ask in step() or in __init__, keep the answer in a tensor, and register that as an "
        "Input",
    )
