"""Twins: the same values moved by some units in the last place, as rounding moves them.

An artifact that, moved so, does something else is at a tie, on any machine: no original is needed
to see that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from roadworthy.runtime.policy import Policy
from roadworthy.runtime.state import PolicyState
from roadworthy.spec.port import Array, Port
from roadworthy.spec.run import Arrays, K, Run, Values, at, results
from roadworthy.spec.signature import Signature
from roadworthy.spec.tolerance import ROUNDINGS, gaps

# So many twins show how far rounding goes: more hardly move the largest of them.
TWINS = 8
# Steps at which an artifact is asked for its twins: a wrong one fails at nearly all.
MOST_DOUBTS = 128


def moved_inputs(
    signature: Signature, inputs: Mapping[str, Array], rng: np.random.Generator, *, ulps: int = 1
) -> Arrays:
    """Every float moved up or down by one unit to `ulps` units, inside of the port's limits."""
    return {
        port.name: _inside(port, inputs[port.name], moved(inputs[port.name], rng, ulps=ulps))
        for port in signature.inputs
    }


def moved_memory(memory: Mapping[str, Array], rng: np.random.Generator, *, ulps: int = 1) -> Arrays:
    """Every float moved up or down by one unit to `ulps` units."""
    return {name: moved(value, rng, ulps=ulps) for name, value in memory.items()}


def moved(values: Array, rng: np.random.Generator, *, ulps: int = 1) -> Array:
    """Floats moved at random by one unit to `ulps` units, 127 at most; zeros and whole numbers
    stay."""
    assert ulps <= np.iinfo(np.int8).max
    if values.dtype.kind != "f":
        return values
    units = None if ulps == 1 else rng.integers(1, ulps + 1, size=values.shape).astype(np.int8)
    # Small whole numbers, and each in place: a batch of images is moved at every step of a run.
    by = rng.integers(0, 2, size=values.shape, dtype=np.int8)
    by *= 2
    by -= 1
    if units is not None:
        by *= units
    # In bits the neighbour of a float is the next integer: away from zero, or towards it.
    # Of one float alone NumPy makes no array.
    result: Array = np.asarray(values.view(f"i{values.dtype.itemsize}") + by).view(values.dtype)
    stays = (values == 0) | ~np.isfinite(values) | ~np.isfinite(result)
    np.copyto(result, values, where=stays)
    return result


def _inside(port: Port, values: Array, twin: Array) -> Array:
    """A twin outside of the limits asks about values that never come: asin(1 + ε) is NaN."""
    low, high = port.about.low, port.about.high
    if port.about.noise == "uniform":
        low, high = 0.0, np.nextafter(np.ones((), values.dtype), np.zeros((), values.dtype))
    if values.dtype.kind != "f" or (low is None and high is None):
        return twin
    below = np.asarray(-np.inf if low is None else low, dtype=values.dtype)
    above = np.asarray(np.inf if high is None else high, dtype=values.dtype)
    return np.where((twin < below) | (twin > above), values, twin)


class OwnTwins:
    """Asks an artifact what it does close by, wherever it does something else than it should."""

    def __init__(self, policy: Policy, seed: int) -> None:
        self.ties = 0
        self._policy = policy
        self._rng = np.random.default_rng(seed + 13)
        self._doubts = 0

    def settled(
        self, run: Run, expected: Mapping[K, Array], allowed: Mapping[K, Array], *, free: bool
    ) -> Values:
        """What came out of a run of the policy, with the expected values at its ties.

        In a `free` run memory starts anew where all rows are reset; in others it was set before
        each step. The policy carries the same as now afterwards.
        """
        got = run.results
        wrong = {
            name: _far(value, got[name], allowed.get(name)) for name, value in expected.items()
        }
        doubtful = np.any([each.reshape(run.steps, -1).any(axis=1) for each in wrong.values()], 0)
        steps = np.flatnonzero(doubtful)[: MOST_DOUBTS - self._doubts].tolist()
        if not steps:
            return got
        self._doubts += len(steps)
        signature, after = self._policy.signature, self._policy.state()
        ticks = run.clock(signature.decimation if signature.clock else 1)
        got = {name: np.array(value) for name, value in got.items()}
        for step in steps:
            before = replace(
                after,
                rows=run.rows if signature.memory else after.rows,
                memory=at(run.memory, step),
                tick=int(ticks[step]),
                fresh=free and (step == 0 or bool(run.resets[step].all())),
            )
            turned = self._turned(before, run, step, expected, got, allowed)
            for name, value in expected.items():
                tied = wrong[name][step] & turned[name] if name in turned else np.zeros(())
                self.ties += int(tied.sum())
                if name in turned:
                    got[name][step] = np.where(tied, value[step], got[name][step])
        self._policy.restore(after)
        return got

    def _turned(
        self,
        before: PolicyState,
        run: Run,
        step: int,
        expected: Mapping[K, Array],
        got: Values,
        allowed: Mapping[K, Array],
    ) -> dict[K, Array]:
        """Where twins of one step give what was expected, or are as far away as that."""
        inputs, within = at(run.inputs, step), at(allowed, step)
        comparable = [name for name, value in expected.items() if value.shape == got[name].shape]
        turned = {name: np.zeros(expected[name].shape[1:], dtype=bool) for name in comparable}
        for _ in range(2 * TWINS):
            twin = self._twin(before, inputs)
            for name in comparable:
                value = expected[name][step]
                gap, fixed = gaps(value, twin[name])
                turned[name] |= gap <= within.get(name, fixed)
                turned[name] |= _as_far(value, got[name][step], twin[name])
        return turned

    def _twin(self, before: PolicyState, inputs: Mapping[str, Array]) -> Values:
        policy, ulps = self._policy, int(ROUNDINGS)
        policy.restore(before)
        # Before the first step the memory is the initial value, in as many rows as will come.
        if policy.signature.memory and not before.fresh:
            policy.set_memory(moved_memory(before.memory, self._rng, ulps=ulps))
        outputs = policy.step(moved_inputs(policy.signature, inputs, self._rng, ulps=ulps))
        return results(outputs, policy.memory)


def _as_far(truth: Array, value: Array, twin: Array) -> Array:
    """Where a float and its twin are as far from each other as from what is right."""
    if value.dtype.kind != "f":
        return np.zeros(value.shape, dtype=bool)
    with np.errstate(invalid="ignore", over="ignore"):
        off, spread = np.abs(value - truth), np.abs(twin - value)
    return np.asarray(np.isfinite(off) & (off <= spread))


def _far(truth: Array, value: Array, allowed: Array | None) -> Array:
    """Where the steps of one side are too far from those of the other."""
    if truth.shape != value.shape:
        return np.ones((len(truth), 1), dtype=bool)
    gap, fixed = gaps(truth, value, rows_at=1)
    return np.asarray(gap > (fixed if allowed is None else allowed))
