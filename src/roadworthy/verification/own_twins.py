"""Ties that an artifact shows by itself: moved by some units in the last place, it does the other.

No original is needed for this: a step or a choice that rounding may turn is one on any machine.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from roadworthy.runtime.policy import Policy
from roadworthy.runtime.state import PolicyState
from roadworthy.spec.port import Array
from roadworthy.spec.stepping import Arrays
from roadworthy.spec.tolerance import ROUNDINGS, gaps
from roadworthy.verification.states import with_memory
from roadworthy.verification.twins import TWINS, moved_inputs, moved_memory

# Steps at which an artifact is asked for its twins: a wrong one fails at nearly all.
MOST_DOUBTS = 128


class OwnTwins:
    """Asks an artifact what it does close by, wherever it does something else than it should."""

    def __init__(self, policy: Policy, seed: int) -> None:
        self.ties = 0
        self._policy = policy
        self._rng = np.random.default_rng(seed + 13)
        self._doubts = 0

    def settled(
        self,
        before: PolicyState,
        inputs: Mapping[str, Array],
        expected: Arrays,
        got: Arrays,
        allowed: Mapping[str, Array],
    ) -> Arrays:
        """What came out, with the expected values where twins are as far: those are ties.

        `before` is what the policy carried into the step; it carries the same as now afterwards.
        """
        wrong = {
            name: _far(value, got[name], allowed.get(name)) for name, value in expected.items()
        }
        if self._doubts >= MOST_DOUBTS or not any(each.any() for each in wrong.values()):
            return got
        self._doubts += 1
        after = self._policy.state()
        turned = {name: np.zeros(each.shape, dtype=bool) for name, each in wrong.items()}
        for _ in range(2 * TWINS):
            twin = self._twin(before, inputs)
            for name, value in expected.items():
                if wrong[name].shape == value.shape:
                    turned[name] |= ~_far(value, twin[name], allowed.get(name))
                    turned[name] |= _as_far(value, got[name], twin[name])
        self._policy.restore(after)
        result = dict(got)
        for name, value in expected.items():
            tied = wrong[name] & turned[name]
            if tied.shape == value.shape:
                self.ties += int(tied.sum())
                result[name] = np.where(tied, value, got[name]).astype(value.dtype)
        return result

    def _twin(self, before: PolicyState, inputs: Mapping[str, Array]) -> Arrays:
        policy, ulps = self._policy, int(ROUNDINGS)
        policy.restore(before)
        # Before the first step the memory is the initial value, in as many rows as will come.
        if policy.signature.memory and not before.fresh:
            policy.set_memory(moved_memory(before.memory, self._rng, ulps=ulps))
        outputs = policy.step(moved_inputs(policy.signature, inputs, self._rng, ulps=ulps))
        return with_memory(outputs, policy.memory)


def _as_far(truth: Array, value: Array, twin: Array) -> Array:
    """Where a float and its twin are as far from each other as from what is right."""
    if value.dtype.kind != "f":
        return np.zeros(value.shape, dtype=bool)
    with np.errstate(invalid="ignore", over="ignore"):
        off, spread = np.abs(value - truth), np.abs(twin - value)
    return np.asarray(np.isfinite(off) & (off <= spread))


def _far(truth: Array, value: Array, allowed: Array | None) -> Array:
    if truth.shape != value.shape:
        return np.ones(1, dtype=bool)
    gap, fixed = gaps(truth, value)
    return np.asarray(gap > (fixed if allowed is None else allowed))
