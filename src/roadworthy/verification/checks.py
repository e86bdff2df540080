"""The checks that need no PyTorch: what any machine can ask of a bundle by itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from roadworthy.runtime.policy import Policy
from roadworthy.runtime.state import PolicyState
from roadworthy.spec.certificate import Check
from roadworthy.spec.port import Array
from roadworthy.spec.samples import draw
from roadworthy.spec.sampling import Sampling
from roadworthy.spec.stepping import Arrays, reset_rows
from roadworthy.spec.tolerance import ROUNDINGS, ulp
from roadworthy.spec.trace import Trace
from roadworthy.verification.compare import Comparison
from roadworthy.verification.own_twins import OwnTwins
from roadworthy.verification.states import Layout, with_memory

BATCH_SIZES = (1, 2, 7)
# One step of many rows: what mixes rows only where there are more of them shows here.
MANY = 33
STEPS = 16
# What is compiled without vectors is slow.
BITS_STEPS = 64

NewPolicy = Callable[[], Policy]


def replay(policy: Policy, trace: Trace) -> Check:
    """The trace, step by step, through the artifact; its own memory, the recorded resets."""
    comparison, twins = Comparison(policy.signature), OwnTwins(policy, seed=0)
    policy.reset()
    for step in range(trace.steps):
        reset_rows(policy, trace.resets[step])
        before, inputs = policy.state(), trace.script.now(step)
        got = policy.step(inputs)
        expected = {name: array[step] for name, array in trace.outputs.items()}
        allowed = {name: array[step] for name, array in trace.allowed.items()}
        got = twins.settled(before, inputs, expected, got, allowed)
        comparison.add(step, expected, got, allowed)
    claim = f"the artifact repeats the outputs of {trace.episodes} recorded episodes"
    facts = {"measured": bool(trace.allowed), "ties": twins.ties}
    return comparison.check("replay", claim, facts)


def batch(new: NewPolicy, trace: Trace, seed: int, sampling: Sampling) -> Check:
    """Batches of 1, 2 and 7, and one step of 33: every row of a batch gives what it gives alone.

    One step at a time from the same memory, so that rounding cannot grow.
    """
    comparison = Comparison()
    together, reversed_rows = new(), new()
    layout = Layout(together.signature)
    twins = [OwnTwins(each, seed) for each in (together, reversed_rows)]
    singles = [new() for _ in range(max(BATCH_SIZES))]
    for size, steps in (*((size, STEPS) for size in BATCH_SIZES), (MANY, 1)):
        rng = np.random.default_rng(seed + size)
        inputs = draw(layout.signature, rng, steps=steps, rows=size, sampling=sampling)
        orders = (list(range(size)), list(reversed(range(size))))
        for each in (together, reversed_rows, *singles):
            each.reset()
        memory = {each.name: each.fresh(size) for each in layout.signature.memory}
        for step in range(steps):
            now = {name: array[step] for name, array in inputs.items()}
            alone = []
            for row in range(size):
                single = singles[row % len(singles)]
                if row >= len(singles):  # of many rows there is one step: it has done another's
                    single.reset()
                alone.append(_from(single, layout, now, memory, [row])[1])
            expected = layout.rows_joined(alone)
            allowed = _allowed(layout, trace, expected)
            for policy, own, order in zip((together, reversed_rows), twins, orders, strict=True):
                before, got = _from(policy, layout, now, memory, order)
                wanted = layout.rows_picked(expected, order)
                within = layout.rows_picked(allowed, order)
                got = own.settled(before, layout.rows_picked(now, order), wanted, got, within)
                comparison.add(step, wanted, got, within)
            memory = together.memory
    listed = ", ".join(map(str, (*BATCH_SIZES, MANY)))
    claim = f"a row gives the same outputs alone and in batches of {listed}, in any order"
    facts = {"measured": bool(trace.allowed), "ties": sum(each.ties for each in twins)}
    return comparison.check("batch", claim, facts)


def _from(
    policy: Policy, layout: Layout, now: Arrays, memory: Arrays, rows: list[int]
) -> tuple[PolicyState, Arrays]:
    """What some rows carry into a step from a given memory, and all that comes out of it."""
    if memory:
        policy.set_memory(layout.rows_picked(memory, rows, of_memory=True))
    before = policy.state()
    return before, with_memory(policy.step(layout.rows_picked(now, rows)), policy.memory)


def _allowed(layout: Layout, trace: Trace, expected: Arrays) -> Arrays:
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
    steps = [{name: array[step] for name, array in inputs.items()} for step in range(3 * span)]
    for now in steps[:span]:
        used.step(now)
    used.reset()
    for index, now in enumerate(steps[span : 2 * span]):
        comparison.add(index, _bits(fresh.step(now)), _bits(used.step(now)))
    if not signature.fixed_rows:
        # Now one row only: it starts anew, the other goes on as if nothing had happened.
        for now in steps[span : 2 * span]:
            untouched.step(now)
        used.reset(np.array([True, False]))
        fresh.reset()
        for index, now in enumerate(steps[2 * span :]):
            new_row, old_row, got = fresh.step(now), untouched.step(now), used.step(now)
            mixed = {
                port.name: _mixed(port.batch_axis or 0, new_row[port.name], old_row[port.name])
                for port in signature.outputs
            }
            comparison.add(span + index, _bits(mixed), _bits(got))
    return comparison.check("reset", "a reset row starts anew, and the other rows go on unchanged")


def bits(policy: Policy, other: Policy, trace: Trace) -> Check:
    """The beginning of the trace through two builds of one text: bit for bit the same."""
    comparison = Comparison()
    for each in (policy, other):
        each.reset()
    for step in range(min(trace.steps, BITS_STEPS)):
        seen = []
        for each in (policy, other):
            reset_rows(each, trace.resets[step])
            seen.append(_bits(with_memory(each.step(trace.script.now(step)), each.memory)))
        comparison.add(step, *seen)
    claim = "compiled with this processor's vectors and without any, it gives the same bits"
    return comparison.check("bits", claim)


def _bits(values: Arrays) -> dict[str, Array]:
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
