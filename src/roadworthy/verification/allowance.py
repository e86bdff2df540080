"""How far a free run may depart: as far as the original's own twins depart from it.

A twin gets every input and every memory moved by a unit in the last place, step after step. In a
chaotic policy twins part for good, and so may an artifact; one step from every visited state is
what tells right from wrong there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from roadworthy.originals.original import NoYardstick, Yardstick
from roadworthy.spec.port import Array
from roadworthy.spec.signature import Signature
from roadworthy.spec.stepping import Arrays, Script
from roadworthy.spec.tolerance import ROUNDINGS
from roadworthy.spec.trace import Trace
from roadworthy.verification.budget import Budget, few, flipped, measure
from roadworthy.verification.departures import apart, departures
from roadworthy.verification.states import Layout, States, memory_key, timed

# The part of the states that is usual: most outputs of a saturated policy do not round at all.
MOST = 0.9


@dataclass(frozen=True, slots=True, eq=False)
class Allowance:
    """How far from the original an artifact may be, beside a script.

    free      in a run of its own, at each step: name → (steps, *shape); infinite where a choice
              may turn
    one_step  usually, after one step from a state of the original: name → (*shape without the rows)
    """

    free: Arrays
    one_step: Arrays


def allowance(yardstick: Yardstick, layout: Layout, script: Script, seed: int) -> Allowance:
    """The allowance beside a script, measured on the captured graph."""
    rng = np.random.default_rng(seed + 9)
    if layout.signature.memory:
        states, departed = departures(yardstick, layout, script, rng)
    else:
        inputs = [script.now(step) for step in range(script.steps)]
        states = layout.states(inputs, [{} for _ in inputs])
        if yardstick.smooth:
            departed = _nowhere(yardstick, layout, states)
        else:
            departed = _flips(yardstick, layout, states, rng)
    places = few(yardstick, layout, states)
    budget = measure(yardstick, layout, states.picked(places), rng)
    if len(places) < len(states):
        budget = budget.spread(places, layout.run(yardstick.rounded, states))
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
        found = allowance(yardstick, Layout(timed(signature)), trace.script, seed)
    except NoYardstick:
        return trace
    free = {name: value for name, value in found.free.items() if name in trace.outputs}
    kept = {*trace.outputs, *(memory_key(each.name) for each in signature.memory)}
    one_step = {name: value for name, value in found.one_step.items() if name in kept}
    return replace(trace, allowed=free, one_step=one_step)


def _free(name: str, budget: Budget, departed: Array) -> Array:
    """At least the budget of each state."""
    if budget.truth[name].dtype.kind != "f":
        shown = [each[name] for each in budget.seen if name in each]
        turned = (departed > 0) | np.any([each != shown[0] for each in shown[1:]], axis=0)
        return np.where(turned, np.inf, 0.0)
    # The original is as far from the exact value as rounding takes it, on its other side.
    return np.asarray(np.maximum(departed, (ROUNDINGS + 1) * budget.rounding[name]))


def _nowhere(yardstick: Yardstick, layout: Layout, states: States) -> Arrays:
    """No departure at any state: only the shapes of the results are asked for."""
    one = layout.run(yardstick.rounded, states.picked(np.array([0])))
    return {name: np.zeros((len(states), *value.shape[1:])) for name, value in one.items()}


def _flips(
    yardstick: Yardstick, layout: Layout, states: States, rng: np.random.Generator
) -> Arrays:
    """How far twins of some units are from each state's own result: over a step, very far."""
    base = layout.run(yardstick.rounded, states)
    far: Arrays = {name: np.zeros(value.shape) for name, value in base.items()}
    for twin in flipped(yardstick, layout, states, rng):
        for name, value in twin.items():
            far[name] = np.maximum(far[name], apart(value, base[name]))
    return far


def _steps(layout: Layout, name: str, values: Array, script: Script) -> Array:
    """States as steps again: (steps, *shape)."""
    if not layout.rows_are_states:
        return values
    steps = values.reshape(script.steps, script.rows, *values.shape[1:])
    return np.moveaxis(steps, 1, 1 + layout.axis(name))


def _usual(layout: Layout, name: str, values: Array) -> Array:
    """What nine states of ten stay below, element by element; so do nine rows of ten inside them.

    The largest belongs to a state in which something turns, and would hide everything elsewhere.
    """
    usual: Array = np.quantile(values, MOST, axis=0, method="higher")
    rows = layout.rows_axis(name)
    if not layout.rows_are_states and rows is not None:
        usual = np.quantile(usual, MOST, axis=rows, method="higher")
    return usual
