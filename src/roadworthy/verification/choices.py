"""Choices beside their ties, for targets that do not show the logits behind them.

A choice hides every error that does not turn it. Between two states with different choices there is
a tie; where it lies tells the logits apart as well as their values would. So both sides choose at
distances from such ties that become shorter and shorter, down to what rounding blurs.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from roadworthy.runtime.policy import Policy
from roadworthy.spec.certificate import Check
from roadworthy.spec.port import Array
from roadworthy.spec.run import Arrays, Inner, Run, Values, record
from roadworthy.spec.signature import Signature
from roadworthy.verification.close_logits import chooses
from roadworthy.verification.fresh_steps import FreshSteps
from roadworthy.verification.originals.original import NoYardstick, Yardstick
from roadworthy.verification.states import MOST_BYTES, StateLayout, States
from roadworthy.verification.visited import Visited

PAIRS = 48
# Halvings until two float32 values on a line are neighbours.
HALVINGS = 26
# The distances from a tie, as parts of the line on which it lies.
DISTANCES = tuple(2.0**-exponent for exponent in range(4, 26, 2))
ROWS = 64


def choices(policy: Policy, fresh: FreshSteps) -> list[Check]:
    """The choices of artifact and original beside their ties; empty where no tie can be found."""
    signature = fresh.signature
    if fresh.yardstick is None or fresh.judge is None or not chooses(signature):
        return []
    # Where rounding or sorting chooses, nothing tells how close a tie is.
    try:
        first = fresh.judge.states.picked(np.array([0]))
        shown = fresh.layout.run(fresh.yardstick.rounded, first)
        if Inner("logits", "0") not in shown or not fresh.layout.rows_are_states:
            return []
        inputs = _beside_ties(fresh.yardstick, fresh.layout, fresh.judge.states, fresh.seed)
    except NoYardstick:
        return []
    if not inputs:
        return []
    script = _script(fresh.layout, inputs, fresh.original.rows)
    with fresh.original.open(signature, rows=script.rows) as live:
        run = record(live, script)
    visited = Visited(signature, fresh.yardstick, [run], fresh.seed)
    if visited.judge is None:
        return []
    claim = f"choices agree in {len(visited.judge.states)} states beside their ties"
    return [visited.compared(policy, visited.judge).check("choices", claim, {})]


def _beside_ties(yardstick: Yardstick, layout: StateLayout, states: States, seed: int) -> Arrays:
    """Inputs on both sides of ties, with states first; nothing where all choices are the same."""
    row_bytes = sum(value[:1].nbytes for value in states.inputs.values())
    # As many as can be measured, all of them: beside a tie nothing else tells right from wrong.
    pairs = min(PAIRS, max(1, MOST_BYTES // (row_bytes * 2 * len(DISTANCES))))
    rng = np.random.default_rng(seed + 13)
    places = rng.integers(0, len(states), size=(2, 8 * PAIRS))
    here, there = ({name: value[side] for name, value in states.inputs.items()} for side in places)
    line = _Segment(yardstick, layout, here, there)
    ends = [line.chosen(np.full(places.shape[1], end)) for end in (0.0, 1.0)]
    differ = np.flatnonzero((ends[0] != ends[1]).reshape(len(ends[0]), -1).any(axis=1))[:pairs]
    if not len(differ):
        return {}
    line = line.picked(differ)
    first = ends[0][differ]
    low, high = np.zeros(len(differ)), np.ones(len(differ))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        same = (line.chosen(middle) == first).reshape(len(first), -1).all(axis=1)
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    beside = [
        line.at(np.clip(where, 0.0, 1.0))
        for distance in DISTANCES
        for where in (low - distance, high + distance)
    ]
    return {name: np.concatenate([each[name] for each in beside]) for name in here}


class _Segment:
    """The straight way between the inputs of two states, pair by pair; memory as at the start."""

    def __init__(
        self, yardstick: Yardstick, layout: StateLayout, here: Arrays, there: Arrays
    ) -> None:
        self._yardstick = yardstick
        self._layout = layout
        self._here = here
        self._there = there

    def picked(self, places: Array) -> _Segment:
        here, there = (
            {name: value[places] for name, value in side.items()}
            for side in (self._here, self._there)
        )
        return _Segment(self._yardstick, self._layout, here, there)

    def at(self, parts: Array) -> Arrays:
        """The inputs so far along the way: floats and pixels move, flags and indices do not."""
        found = dict(self._here)
        for name, value in self._here.items():
            if value.dtype.kind in "fu":
                by = parts.reshape(-1, *(1,) * (value.ndim - 1))
                there = value + by * (self._there[name].astype(np.float64) - value)
                found[name] = (there if value.dtype.kind == "f" else there.round()).astype(
                    value.dtype
                )
        return found

    def chosen(self, parts: Array) -> Array:
        """The exact choice there."""
        signature = self._layout.signature
        fresh = _fresh_memory(self._layout, signature, len(parts))
        result = self._layout.run(self._exact, States(self.at(parts), fresh))
        return result[signature.action_output]

    def _exact(self, inputs: Mapping[str, Array], memory: Mapping[str, Array]) -> Values:
        found = self._yardstick.exact(inputs, memory)
        return self._yardstick.rounded(inputs, memory) if found is None else found


def _fresh_memory(layout: StateLayout, signature: Signature, count: int) -> Arrays:
    return layout.joined([{m.name: m.fresh(count) for m in signature.memory}], of_memory=True)


def _script(layout: StateLayout, inputs: Arrays, fixed: int | None) -> Run:
    """The inputs as steps of some rows, each from a fresh memory; the last are repeated."""
    count = len(next(iter(inputs.values())))
    steps = -(-count // (fixed or ROWS))
    rows = fixed or -(-count // steps)
    places = np.minimum(np.arange(steps * rows), count - 1).reshape(steps, rows)
    arranged = {
        name: np.stack([layout.natural(name, value[now]) for now in places])
        for name, value in inputs.items()
    }
    return Run(inputs=arranged, resets=np.ones((steps, rows), dtype=bool))
