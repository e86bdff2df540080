"""Departures: how far the original's twins are from it, in runs side by side with its own.

A twin gets every input and every memory moved by units in the last place, step after step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from roadworthy.spec.port import Array
from roadworthy.spec.run import Arrays, K, Run, Values, at, remembered
from roadworthy.spec.tolerance import ROUNDINGS
from roadworthy.verification.budget import shaken, turned
from roadworthy.verification.originals.original import TurningErrors, Yardstick
from roadworthy.verification.states import MOST_ROWS, OneStep, StateLayout, States
from roadworthy.verification.twins import TWINS, moved_inputs, moved_memory

# Steps for which what has departed counts as departed: chaos comes back by chance, a comparison
# that turned one step early does not.
KEPT = 8
# Twins of a policy whose rows cannot be put side by side: each is a run of its own. And those of a
# large network that are asked first.
FEW_TWINS = 2
# Operations of all twins that are asked first: a second or two.
MOST_WORK = 40_000_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Departures:
    """An own run of the graph, and how far from it an artifact's run may be: name → (states, …)."""

    states: States
    results: Values
    departed: Values


def twins_in_turn(yardstick: Yardstick, layout: StateLayout, script: Run) -> tuple[int, ...]:
    """How many twins of either kind to ask at first, and how many where those say too little.

    Their work is counted, not timed, so that the same twins are asked on every machine.
    """
    if not layout.rows_are_states:
        return (FEW_TWINS,)
    fresh = {each.name: each.fresh(script.rows) for each in layout.signature.memory}
    start = States(layout.joined([at(script.inputs, 0)]), layout.joined([fresh], of_memory=True))
    one = layout.alone(start, 0)
    each_twin = max(1, yardstick.work(one.inputs, one.memory) * script.steps * script.rows)
    first = min(TWINS, max(FEW_TWINS, MOST_WORK // (2 * each_twin)))
    return (TWINS,) if first == TWINS else (first, TWINS - first)


def departures(
    yardstick: Yardstick, layout: StateLayout, script: Run, rng: np.random.Generator, twins: int
) -> Departures:
    """An own run of the graph, and how far twins depart from it.

    That is as far as twins of as many units depart as an artifact may be off, or as many times
    what twins of one unit do; so many `twins` of either kind.
    """
    near, far = _Runs(layout, 1 + twins), _Runs(layout, twins)
    fresh = {each.name: each.fresh(script.rows) for each in layout.signature.memory}
    initial = layout.joined([fresh], of_memory=True)
    memory = {name: np.stack([value] * (near.count + far.count)) for name, value in initial.items()}
    inputs: list[Arrays] = []
    memories: list[Arrays] = []
    results: list[Values] = []
    departed: list[Values] = []
    own: list[Values] = []
    for step in range(script.steps):
        now = layout.joined([at(script.inputs, step)])
        begins = script.resets[step] if layout.rows_are_states else script.resets[step][:1]
        memory = {
            name: np.where(_like(begins, initial[name]), initial[name], value)
            for name, value in memory.items()
        }
        inputs.append(now)
        memories.append({name: value[0] for name, value in memory.items()})
        split = near.count
        one = near.step(yardstick.rounded, now, _part(memory, 0, split), rng, ulps=1)
        ulps = int(ROUNDINGS)
        function = shaken(yardstick, rng, ulps=ulps)
        if yardstick.turning:
            errors = _errors(yardstick, layout, States(now, memories[-1]), far.count)
            function = turned(yardstick, rng, errors)
        other = far.step(function, now, _part(memory, split, None), rng, ulps=ulps)
        memory = {
            name: np.concatenate([one[remembered(name)], other[remembered(name)]])
            for name in initial
        }
        results.append({name: value[0] for name, value in one.items()})
        own = [
            {name: np.where(_like(begins, value), 0.0, value) for name, value in each.items()}
            for each in own[-KEPT:]
        ]
        own.append({})
        for name, value in one.items():
            close = ROUNDINGS * apart(value[1:], value[:1]).max(axis=0)
            own[-1][name] = np.maximum(close, apart(other[name], value[:1]).max(axis=0))
        departed.append({name: np.max([each[name] for each in own], axis=0) for name in one})
    return Departures(
        States(_behind(inputs), _behind(memories)), _behind(results), _behind(departed)
    )


def _errors(
    yardstick: Yardstick, layout: StateLayout, own: States, twins: int
) -> TurningErrors | None:
    """What is measured at the states of the own run, for all twins of them."""
    if layout.rows_are_states and len(own) * twins > MOST_ROWS:  # they go through in several calls
        return None
    # Where a step is a state there is one here, of which each twin is a call of its own.
    (states,) = layout.parts(own)
    return yardstick.turning_errors(states.inputs, states.memory)


class _Runs:
    """Some runs side by side: every array has the runs first, and the states second."""

    def __init__(self, layout: StateLayout, count: int) -> None:
        self.count = count
        self._layout = layout

    def step(
        self,
        function: OneStep,
        now: Arrays,
        memory: Arrays,
        rng: np.random.Generator,
        *,
        ulps: int,
    ) -> Values:
        """One step of all runs, each moved; of those that are moved by one unit all but the first,
        which is the original's own."""
        signature = self._layout.signature
        inputs = {
            name: np.broadcast_to(value, (self.count, *value.shape)) for name, value in now.items()
        }
        moved = (
            moved_inputs(signature, inputs, rng, ulps=ulps),
            moved_memory(memory, rng, ulps=ulps),
        )
        if ulps == 1:
            for values, twins in zip((inputs, memory), moved, strict=True):
                for name, value in values.items():
                    if value.dtype.kind == "f":
                        twins[name][0] = value[0]
        flat = ({name: value.reshape(-1, *value.shape[2:]) for name, value in side.items()}
                for side in moved)  # fmt: skip
        results = self._layout.run(function, States(*flat))
        return {
            name: value.reshape(self.count, -1, *value.shape[1:]) for name, value in results.items()
        }


def apart(one: Array, other: Array) -> Array:
    """Distances; infinite where one is finite and the other is not."""
    one, other = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(invalid="ignore"):
        gap = np.abs(one - other)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    return np.where(same, 0.0, np.where(np.isnan(gap), np.inf, gap))


def _part(memory: Arrays, first: int, last: int | None) -> Arrays:
    return {name: value[first:last] for name, value in memory.items()}


def _behind(steps: list[dict[K, Array]]) -> dict[K, Array]:
    """The states of all steps, one step behind the other."""
    return {name: np.concatenate([each[name] for each in steps]) for name in steps[0]}


def _like(begins: Array, value: Array) -> Array:
    return begins.reshape(-1, *(1,) * (value.ndim - 1))
