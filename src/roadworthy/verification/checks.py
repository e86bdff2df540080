"""The checks that need no PyTorch: what any machine can ask of a bundle by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from roadworthy.runtime.policy import Policy
from roadworthy.spec.certificate import Check
from roadworthy.spec.port import Array
from roadworthy.spec.run import Arrays, K, Run, Values, at, record_free, results, stacked
from roadworthy.spec.samples import draw
from roadworthy.spec.sampling import Sampling
from roadworthy.spec.tolerance import ROUNDINGS, ulp
from roadworthy.spec.trace import Trace
from roadworthy.verification.comparison import Comparison
from roadworthy.verification.states import StateLayout
from roadworthy.verification.twins import OwnTwins

BATCH_SIZES = (1, 2, 7)
# One step of many rows: what mixes rows only where there are more of them shows here.
MANY = 33
STEPS = 16
# What is compiled without vectors is slow.
BITS_STEPS = 64

NewPolicy = Callable[[], Policy]
# What entered a step, its outputs, and the memory that it left.
_Step = tuple[Arrays, Arrays, Arrays]


def replay(policy: Policy, trace: Trace) -> Check:
    """The trace through the artifact; its own memory, the recorded resets."""
    comparison, twins = Comparison(policy.signature), OwnTwins(policy, seed=0)
    run = record_free(policy, trace)
    got = twins.settled(run, trace.outputs, trace.allowed, free=True)
    comparison.add_steps(trace.outputs, got, allowed=trace.allowed)
    claim = f"the artifact repeats the outputs of {trace.episodes} recorded episodes"
    facts = {"measured": bool(trace.allowed), "ties": twins.ties}
    return comparison.check("replay", claim, facts)


def batch(new: NewPolicy, trace: Trace, seed: int, sampling: Sampling) -> Check:
    """Batches of 1, 2 and 7, and one step of 33: every row of a batch gives what it gives alone.

    One step at a time from the same memory, so that rounding cannot grow.
    """
    comparison = Comparison()
    together, reversed_rows = new(), new()
    layout = StateLayout(together.signature)
    twins = [OwnTwins(each, seed) for each in (together, reversed_rows)]
    singles = [new() for _ in range(max(BATCH_SIZES))]
    for size, steps in (*((size, STEPS) for size in BATCH_SIZES), (MANY, 1)):
        rng = np.random.default_rng(seed + size)
        inputs = draw(layout.signature, rng, steps=steps, rows=size, sampling=sampling)
        orders = (list(range(size)), list(reversed(range(size))))
        for each in (together, reversed_rows, *singles):
            each.reset()
        memory = {each.name: each.fresh(size) for each in layout.signature.memory}
        alone: list[Values] = []
        steps_of: tuple[list[_Step], ...] = ([], [])
        for step in range(steps):
            now = at(inputs, step)
            rows: list[_Step] = []
            for row in range(size):
                single = singles[row % len(singles)]
                if row >= len(singles):  # of many rows there is one step: it has done another's
                    single.reset()
                rows.append(_from(single, layout, now, memory, [row]))
            left = layout.rows_joined([after for *_, after in rows], of_memory=True)
            alone.append(results(layout.rows_joined([given for _, given, _ in rows]), left))
            for policy, order, of in zip((together, reversed_rows), orders, steps_of, strict=True):
                of.append(_from(policy, layout, now, memory, order))
            memory = steps_of[0][-1][2]  # as the batch in its own order left it
        expected = stacked(alone)
        allowed = _allowed(layout, trace, expected)
        sides: list[tuple[Values, Values, Values]] = []
        for own, order, of in zip(twins, orders, steps_of, strict=True):
            wanted, within, given = (
                layout.rows_picked(each, order, columns=True)
                for each in (expected, allowed, inputs)
            )
            before, outputs, after = (stacked(column) for column in zip(*of, strict=True))
            run = Run(
                inputs=given, resets=np.zeros((steps, size), dtype=bool),
                outputs=outputs, memory=before, next_memory=after,
            )  # fmt: skip
            sides.append((wanted, own.settled(run, wanted, within, free=False), within))
        # Step by step, one order behind the other.
        wanted, got, within = (
            {name: np.stack([one[name], other[name]], axis=1).reshape(-1, *one[name].shape[1:])
             for name in one}
            for one, other in zip(*sides, strict=True)
        )  # fmt: skip
        numbers = np.repeat(np.arange(steps), len(orders))
        comparison.add_steps(wanted, got, numbers=numbers, allowed=within)
    listed = ", ".join(map(str, (*BATCH_SIZES, MANY)))
    claim = f"a row gives the same outputs alone and in batches of {listed}, in any order"
    facts = {"measured": bool(trace.allowed), "ties": sum(each.ties for each in twins)}
    return comparison.check("batch", claim, facts)


def _from(
    policy: Policy, layout: StateLayout, now: Arrays, memory: Arrays, rows: list[int]
) -> _Step:
    """One step of some rows from a given memory: what entered, the outputs, what was left."""
    picked = layout.rows_picked(memory, rows, of_memory=True)
    if picked:
        policy.set_memory(picked)
    outputs = policy.step(layout.rows_picked(now, rows))
    return picked, outputs, policy.memory if picked else {}


def _allowed(layout: StateLayout, trace: Trace, expected: Values) -> Values:
    """How far rows may be from each other: what was measured, and units of their own scale."""
    found = {}
    for name, value in expected.items():
        axis = layout.rows_axis(name)
        if name in trace.one_step and axis is not None:
            least = np.expand_dims(trace.one_step[name], axis)
            found[name] = np.maximum(ROUNDINGS * ulp(value, value.dtype), least)
    return found


def reset(new: NewPolicy, seed: int, sampling: Sampling) -> Check:
    """After steps and a reset: bit for bit what a fresh policy gives, row by row."""
    comparison = Comparison()
    used, fresh, untouched = new(), new(), new()
    signature = used.signature
    rows = signature.fixed_rows or 2
    # A whole number of policy steps: single rows are reset only when all rows decide.
    span = max(signature.decimation, STEPS // signature.decimation * signature.decimation)
    rng = np.random.default_rng(seed)
    inputs = draw(signature, rng, steps=3 * span, rows=rows, sampling=sampling)
    before, again, later = (
        [at(inputs, step) for step in range(first, first + span)] for first in (0, span, 2 * span)
    )
    _steps(used, before)
    used.reset()
    comparison.add_steps(_bits(_steps(fresh, again)), _bits(_steps(used, again)))
    if not signature.fixed_rows:
        # Now one row only: it starts anew, the other goes on as if nothing had happened.
        _steps(untouched, again)
        used.reset(np.array([True, False]))
        fresh.reset()
        new_row, old_row, got = (_steps(each, later) for each in (fresh, untouched, used))
        mixed = {
            port.name: _mixed(1 + (port.batch_axis or 0), new_row[port.name], old_row[port.name])
            for port in signature.outputs
        }
        comparison.add_steps(_bits(mixed), _bits(got), numbers=span + np.arange(span))
    return comparison.check("reset", "a reset row starts anew, and the other rows go on unchanged")


def _steps(policy: Policy, inputs: Sequence[Arrays]) -> Arrays:
    return stacked([policy.step(now) for now in inputs])


def bits(policy: Policy, other: Policy, trace: Trace) -> Check:
    """The beginning of the trace through two builds of one text: bit for bit the same."""
    comparison = Comparison()
    beginning = Run(
        inputs={name: array[:BITS_STEPS] for name, array in trace.inputs.items()},
        resets=trace.resets[:BITS_STEPS],
    )
    one, two = (_bits(record_free(each, beginning).results) for each in (policy, other))
    comparison.add_steps(one, two)
    claim = "compiled with this processor's vectors and without any, it gives the same bits"
    return comparison.check("bits", claim)


def _bits(values: Mapping[K, Array]) -> dict[K, Array]:
    """Floats as the integers of their bits: equal means equal, not close; a NaN has no sign."""
    return {
        name: np.where(np.isnan(value), np.nan, value)
        .astype(value.dtype)
        .view(f"i{value.dtype.itemsize}")
        if value.dtype.kind == "f"
        else value
        for name, value in values.items()
    }


def _mixed(axis: int, first: Array, rest: Array) -> Array:
    index = (slice(None),) * axis
    return np.concatenate([first[(*index, slice(0, 1))], rest[(*index, slice(1, None))]], axis=axis)
