"""The judgement of an artifact at visited states: each element by what rounding does there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.spec.certificate import Difference
from roadworthy.spec.port import Array
from roadworthy.spec.run import Key, Values
from roadworthy.spec.tolerance import OTHER_KERNELS, ROUNDINGS
from roadworthy.verification.budget import Budget, few, flipped, measure
from roadworthy.verification.close_logits import close_logits
from roadworthy.verification.originals.original import NoYardstick, Yardstick
from roadworthy.verification.states import StateLayout, States

# Failing states at which twins further away are asked: a wrong artifact fails at nearly all.
MOST_DOUBTS = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """One value at every state: what is right, how far off it is and may be, and what is a tie.

    A tie is an element that rounding may turn around: it was turned, and counts as right.
    """

    truth: Array
    gap: Array
    allowed: Array
    ties: int = 0

    @property
    def share(self) -> Array:
        """How much of what is allowed each element takes: more than 1 is too far off."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.gap > 0, self.gap / self.allowed, 0.0)

    @property
    def failing(self) -> Array:
        """Whether each state has an element that is too far off."""
        return np.asarray((self.gap > self.allowed).reshape(len(self.gap), -1).any(axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """Knows the states that the original visited, what it gave there, and what rounding does."""

    yardstick: Yardstick
    layout: StateLayout
    states: States
    original: Values
    budget: Budget
    places: Array
    seed: int

    @classmethod
    def at(
        cls, yardstick: Yardstick, layout: StateLayout, states: States, original: Values, seed: int
    ) -> Judge:
        """The judge at some states, where the original gave `original`."""
        places = few(yardstick, layout, states)
        budget = measure(yardstick, layout, states.picked(places), np.random.default_rng(seed + 5))
        if len(places) < len(states):
            budget = budget.spread(places, original)
        return cls(yardstick, layout, states, original, budget, places, seed)

    def judged(self, got: Mapping[Key, Array]) -> dict[Key, Judged]:
        """The judgement over each value that the original gave."""
        found, doubts = self._first_sight(self.budget, got)
        unmeasured = np.setdiff1d(doubts, self.places)
        # A wrong artifact fails at more states than can be measured; a right one here and there,
        # where a unit that is saturated everywhere else is not.
        if 0 < len(unmeasured) <= len(self.places):
            rng = np.random.default_rng(self.seed + 7)
            try:
                there = measure(self.yardstick, self.layout, self.states.picked(unmeasured), rng)
            except NoYardstick:  # a graph that does not take any number of rows
                return found
            found, doubts = self._first_sight(self.budget.measured(unmeasured, there), got)
        return self._reconsidered(found, got, doubts) if len(doubts) else found

    def _first_sight(
        self, budget: Budget, got: Mapping[Key, Array]
    ) -> tuple[dict[Key, Judged], Array]:
        """The judgement by a budget, and the states at which something is too far off."""
        found = {
            name: _judged(name, budget, original, got[name])
            for name, original in self.original.items()
            if got[name].shape == original.shape
        }
        failing = [each.failing for each in found.values()]
        return found, np.flatnonzero(np.any(failing, axis=0)) if failing else np.array([], int)

    def facts(self, worst: Mapping[str, Difference], ties: int) -> dict[str, Any]:
        """What a certificate says about the measurement."""
        said: dict[str, Any] = {
            "measured": True,
            "allowed_roundings": ROUNDINGS,
            "roundings": {
                port: round(each.roundings, 3)
                for port, each in worst.items()
                if each.roundings is not None and math.isfinite(each.roundings)
            },
            "states": len(self.states),
            "ties": ties,
            "float64": self.budget.exact,
        }
        return said if self.budget.exact else said | {"no_float64": self.yardstick.inexact}

    def _reconsidered(
        self, found: dict[Key, Judged], got: Mapping[Key, Array], doubts: Array
    ) -> dict[Key, Judged]:
        """Where a step or a choice lies within rounding, either side of it is right."""
        doubts = doubts[:MOST_DOUBTS]
        states = self.states.picked(doubts)
        rng = np.random.default_rng(self.seed + 6)
        try:
            seen = flipped(self.yardstick, self.layout, states, rng)
        except NoYardstick:  # a graph that does not take any number of rows
            return found
        result = {}
        for name, each in found.items():
            gap, value, own = each.gap.copy(), got[name][doubts], self.original[name][doubts]
            allowed, given = each.allowed[doubts], [twin[name] for twin in seen]
            wrong = gap[doubts] > allowed
            # A graph that never gives what the original gives must not speak for it.
            speaks = _any_same([self.budget.seen[0][name][doubts], *given], own, allowed)
            turned = _any_same(given, value, allowed)
            if name in self.yardstick.quantities:
                turned |= (np.min(given, axis=0) <= value) & (value <= np.max(given, axis=0))
            turned |= close_logits(self.layout.signature, name, self.budget, doubts, own, value)
            turned &= speaks
            gap[doubts] = np.where(turned, 0.0, gap[doubts])
            ties = each.ties + int((wrong & turned).sum())
            result[name] = Judged(each.truth, gap, each.allowed, ties)
        return result


def _judged(name: Key, budget: Budget, original: Array, got: Array) -> Judged:
    seen = [each[name] for each in budget.seen if name in each]
    if budget.truth[name].dtype.kind != "f":
        gap = np.abs(got.astype(np.float64) - original.astype(np.float64))
        speaks = _any_same(seen, original, 0.0)
        shown = speaks & _any_same(seen, got, 0.0) & (gap > 0)
        gap = np.where(shown, 0.0, gap)
        return Judged(original, gap, np.zeros(gap.shape), int(shown.sum()))
    allowed = ROUNDINGS * budget.rounding[name]
    truth, own = budget.truth[name], original.astype(np.float64)
    with np.errstate(invalid="ignore"):
        # A graph that is not what the original does must not stand for it. What a GPU's own
        # kernels round is measured nowhere: they may be further from the exact value than this.
        truth = np.where(np.abs(own - truth) <= OTHER_KERNELS * allowed, truth, own)
        gap = np.abs(got.astype(np.float64) - truth)
    odd = ~(np.isfinite(got) & np.isfinite(truth))
    alike = _same(original, got, 0.0)
    alike |= _any_same(seen, original, allowed) & _any_same(seen, got, 0.0)
    gap = np.where(odd, np.where(alike, 0.0, np.inf), gap)
    return Judged(truth, gap, allowed)


def _any_same(some: Sequence[Array], other: Array, within: Array | float) -> Array:
    return np.asarray(np.any([_same(each, other, within) for each in some], axis=0))


def _same(one: Array, other: Array, within: Array | float) -> Array:
    """Where two arrays agree; NaN equals NaN and nothing else."""
    one, other = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(invalid="ignore"):
        close = np.abs(one - other) <= within
    return np.asarray(close | (one == other) | (np.isnan(one) & np.isnan(other)))
