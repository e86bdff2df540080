"""The checks that need no PyTorch: what any machine can ask of a bundle by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from roadworthy.runtime.policy import Policy
from roadworthy.spec.certificate import Check
from roadworthy.spec.port import Array, Port
from roadworthy.spec.samples import draw
from roadworthy.spec.sampling import Sampling
from roadworthy.spec.stepping import follow
from roadworthy.spec.trace import Trace
from roadworthy.verification.compare import Comparison

BATCH_SIZES = (1, 2, 7)
STEPS = 16

NewPolicy = Callable[[], Policy]


def replay(policy: Policy, trace: Trace) -> Check:
    """The trace, step by step, through the artifact; its own memory, the recorded resets."""
    comparison = Comparison(policy.signature)
    policy.reset()
    for step, got in enumerate(follow(policy, trace.script)):
        comparison.add(step, {name: array[step] for name, array in trace.outputs.items()}, got)
    claim = f"the artifact repeats the outputs of {trace.episodes} recorded episodes"
    return comparison.check("replay", claim)


def batch(new: NewPolicy, seed: int, sampling: Sampling) -> Check:
    """Batches of 1, 2 and 7: every row of a batch gives what it gives alone."""
    comparison = Comparison()
    policy, reversed_rows = new(), new()
    signature = policy.signature
    singles = [new() for _ in range(max(BATCH_SIZES))]
    for size in BATCH_SIZES:
        rng = np.random.default_rng(seed + size)
        inputs = draw(signature, rng, steps=STEPS, rows=size, sampling=sampling)
        order = list(reversed(range(size)))
        for each in (policy, reversed_rows, *singles):
            each.reset()
        for step in range(STEPS):
            now = {name: array[step] for name, array in inputs.items()}
            together = policy.step(now)
            alone = [singles[row].step(_taken(signature.inputs, now, [row])) for row in range(size)]
            stacked = {
                port.name: np.concatenate([each[port.name] for each in alone], axis=port.batch_axis)
                for port in signature.outputs
            }
            comparison.add(step, stacked, together)
            mixed = reversed_rows.step(_taken(signature.inputs, now, order))
            comparison.add(step, _taken(signature.outputs, stacked, order), mixed)
    listed = ", ".join(map(str, BATCH_SIZES))
    claim = f"a row gives the same outputs alone and in batches of {listed}, in any order"
    return comparison.check("batch", claim)


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


def _bits(values: dict[str, Array]) -> dict[str, Array]:
    """Floats as the integers of their bits: equal means equal, not close."""
    return {
        name: value.view(f"i{value.dtype.itemsize}") if value.dtype.kind == "f" else value
        for name, value in values.items()
    }


def _mixed(axis: int, first: Array, rest: Array) -> Array:
    index = (slice(None),) * axis
    return np.concatenate([first[(*index, slice(0, 1))], rest[(*index, slice(1, None))]], axis=axis)


def _taken(ports: Sequence[Port], values: Mapping[str, Array], rows: list[int]) -> dict[str, Array]:
    """The values of some rows, in that order."""
    return {
        port.name: np.take(values[port.name], rows, axis=port.batch_axis)
        if port.batch_axis is not None
        else values[port.name]
        for port in ports
    }
