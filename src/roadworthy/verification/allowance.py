"""How far a free run may depart: as far as the original's own twins depart from it.

A twin gets every input and every memory moved by a unit in the last place, step after step. In a
chaotic policy twins part for good, and so may an artifact; one step from every visited state is
what tells right from wrong there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from roadworthy.spec.port import Array
from roadworthy.spec.run import Key, Run, Values, remembered
from roadworthy.spec.signature import Signature
from roadworthy.spec.tolerance import ROUNDINGS
from roadworthy.spec.trace import Trace
from roadworthy.verification.budget import Budget, few, flipped, measure
from roadworthy.verification.originals.original import NoYardstick, Yardstick
from roadworthy.verification.states import StateLayout, timed
from roadworthy.verification.twin_runs import Departures, apart, departures, twins_in_turn


@dataclass(frozen=True, slots=True, eq=False)
class Allowance:
    """How far from the original an artifact may be, beside a script.

    free      in a run of its own, at each step: name → (steps, *shape); infinite where a choice
              may turn
    one_step  usually, after one step from a state of the original: name → (*shape without the rows)
    """

    free: Values
    one_step: Values


def allowance(yardstick: Yardstick, layout: StateLayout, script: Run, seed: int) -> Allowance:
    """The allowance beside a script, measured on the captured graph with all twins."""
    *_, last = allowances(yardstick, layout, script, seed)
    return last


def allowances(
    yardstick: Yardstick, layout: StateLayout, script: Run, seed: int
) -> Iterator[Allowance]:
    """Allowances beside a script, none narrower than the one before.

    Of a large network few twins are asked first. What stays within what they allow stays within
    what all of them allow: only for what does not, the others need to be asked.
    """
    rng = np.random.default_rng(seed + 9)
    if not layout.signature.memory:
        run = _steps_alone(yardstick, layout, script, rng)
        yield _allowed(layout, script, _budget(yardstick, layout, run, rng), run.departed)
        return
    first, *others = twins_in_turn(yardstick, layout, script)
    run = departures(yardstick, layout, script, rng, first)
    budget = _budget(yardstick, layout, run, rng)
    yield _allowed(layout, script, budget, run.departed)
    for twins in others:
        further = departures(yardstick, layout, script, rng, twins).departed
        widest = {name: np.maximum(each, further[name]) for name, each in run.departed.items()}
        yield _allowed(layout, script, budget, widest)


def _budget(
    yardstick: Yardstick, layout: StateLayout, run: Departures, rng: np.random.Generator
) -> Budget:
    places = few(yardstick, layout, run.states)
    budget = measure(yardstick, layout, run.states.picked(places), rng)
    return budget if len(places) == len(run.states) else budget.spread(places, run.results)


def _allowed(layout: StateLayout, script: Run, budget: Budget, departed: Values) -> Allowance:
    return Allowance(
        free={
            name: _steps(layout, name, _free(name, budget, each), script)
            for name, each in departed.items()
            if name in budget.truth
        },
        one_step={
            name: _usual(layout, name, (ROUNDINGS + 1) * value)
            for name, value in budget.rounding.items()
            if budget.truth[name].dtype.kind == "f"
        },
    )


def with_allowance(
    trace: Trace, yardstick: Yardstick | None, signature: Signature, seed: int
) -> Trace:
    """The trace, with how far a replay of it may be off; as it is where nothing can be measured."""
    if yardstick is None:
        return trace
    try:
        measured = allowances(yardstick, StateLayout(timed(signature)), trace, seed)
        # Where nothing turns, twins differ in little: the largest of few is that of many, nearly.
        found = next(measured)
        if not yardstick.smooth:
            *_, found = found, *measured
    except NoYardstick:
        return trace
    free = {name: found.free[name] for name in trace.outputs if name in found.free}
    kept = {*trace.outputs, *(remembered(each.name) for each in signature.memory)}
    one_step = {name: value for name, value in found.one_step.items() if name in kept}
    return replace(trace, allowed=free, one_step=one_step)


def _free(name: Key, budget: Budget, departed: Array) -> Array:
    """At least the budget of each state."""
    if budget.truth[name].dtype.kind != "f":
        shown = [each[name] for each in budget.seen if name in each]
        turned = (departed > 0) | np.any([each != shown[0] for each in shown[1:]], axis=0)
        return np.where(turned, np.inf, 0.0)
    # The original is as far from the exact value as rounding takes it, on its other side.
    return np.asarray(np.maximum(departed, (ROUNDINGS + 1) * budget.rounding[name]))


def _steps_alone(
    yardstick: Yardstick, layout: StateLayout, script: Run, rng: np.random.Generator
) -> Departures:
    """The steps of a policy without memory, and how far twins of some units are from each:
    over a step, very far; nowhere, where there are none."""
    states = layout.states(script)
    if yardstick.smooth and len(few(yardstick, layout, states)) == len(states):
        base = layout.run(yardstick.rounded, states.picked(np.array([0])))  # for its shapes alone
    else:
        base = layout.run(yardstick.rounded, states)
    far: Values = {name: np.zeros((len(states), *value.shape[1:])) for name, value in base.items()}
    if yardstick.smooth:
        return Departures(states, base, far)
    for twin in flipped(yardstick, layout, states, rng):
        for name, value in twin.items():
            far[name] = np.maximum(far[name], apart(value, base[name]))
    return Departures(states, base, far)


def _steps(layout: StateLayout, name: Key, values: Array, script: Run) -> Array:
    """States as steps again: (steps, *shape)."""
    if not layout.rows_are_states:
        return values
    steps = values.reshape(script.steps, script.rows, *values.shape[1:])
    return np.moveaxis(steps, 1, 1 + layout.axis(name))


def _usual(layout: StateLayout, name: Key, values: Array) -> Array:
    """The middle one of each element over the states, and over the rows inside of them."""
    usual: Array = np.median(values, axis=0)
    rows = layout.rows_axis(name)
    if not layout.rows_are_states and rows is not None:
        usual = np.median(usual, axis=rows)
    return usual
