"""Comparing values port by port, and remembering the worst place."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from roadworthy.spec.certificate import Check, Difference
from roadworthy.spec.port import Array
from roadworthy.spec.run import K, Key, Values
from roadworthy.spec.signature import Signature
from roadworthy.spec.tolerance import ROUNDINGS, gaps
from roadworthy.verification.judging import Judged
from roadworthy.verification.states import Index, Locate


class Comparison:
    """Collects differences over many steps: the worst of each port, and the first failure."""

    def __init__(self, signature: Signature | None = None) -> None:
        ports = (*signature.inputs, *signature.outputs) if signature else ()
        self._elements = {port.name: port.about.elements for port in ports}
        self.worst: dict[str, Difference] = {}
        self.first_failure: Difference | None = None
        self.steps = 0
        self.ties = 0
        self._failures: dict[str, int] = {}

    def add(
        self,
        step: int,
        expected: Mapping[K, Array],
        got: Mapping[K, Array],
        allowed: Mapping[K, Array] | None = None,
    ) -> None:
        """One step's values; `got` must have every port of `expected`.

        `allowed` says how far each element may be, where that is known from a measurement.
        """
        one, other, within = (
            {name: value[None] for name, value in values.items()}
            for values in (expected, got, allowed or {})
        )
        self.add_steps(one, other, numbers=np.array([step]), count=1, allowed=within)

    def add_steps(
        self,
        expected: Mapping[K, Array],
        got: Mapping[K, Array] | Values,
        *,
        numbers: Array | None = None,
        count: int | None = None,
        allowed: Mapping[K, Array] | None = None,
    ) -> None:
        """The values of many steps in columns, that count as `count` steps, by default all.

        `numbers` are those by which the steps are known, 0, 1, 2, … where nothing is said.
        """
        failures: list[tuple[int, Difference]] = []
        length = max(map(len, expected.values()), default=0)
        known_as = np.arange(length) if numbers is None else numbers
        for port, truth in expected.items():
            value = got[port]
            if truth.shape != value.shape:
                difference = _shape_difference(str(port), int(known_as[0]), truth[0], value[0])
                self._count(difference, length)
                failures.append((0, difference))
                continue
            gap, fixed = gaps(truth, value, rows_at=1)
            judged = Judged(truth, gap, (allowed or {}).get(port, fixed))
            failures += self._add(port, value, judged, _numbered(known_as), measured=False)
        self.steps += length if count is None else count
        # Of several ports the one that fails first comes first.
        for _, difference in sorted(failures, key=lambda failure: failure[0])[:1]:
            self._fail(difference)

    def refuse_other_shapes(self, expected: Mapping[K, Array], got: Mapping[K, Array]) -> None:
        """Counts the ports whose values have another shape as failures."""
        for port, truth in expected.items():
            if truth.shape != got[port].shape:
                difference = _shape_difference(str(port), 0, truth[0], got[port][0])
                self._count(difference, 1)
                self._fail(difference)

    def add_judged(
        self, judged: Mapping[K, Judged], got: Mapping[K, Array], locate: Locate, *, count: int
    ) -> int | None:
        """The first failing state, if any, of many that were judged by PyTorch's rounding.

        They count as `count` steps.
        """
        self.steps += count
        for each in judged.values():
            self.ties += each.ties
        # The port that fails first comes first: what fails after it may be its consequence.
        failing = {port: np.flatnonzero(each.failing) for port, each in judged.items()}
        first = {port: int(states[0]) for port, states in failing.items() if len(states)}
        for port in sorted(judged, key=lambda port: first.get(port, len(got[port]))):
            for _, difference in self._add(port, got[port], judged[port], locate, measured=True):
                self._fail(difference)
        return min(first.values(), default=None)

    @property
    def passed(self) -> bool:
        return self.first_failure is None and self.steps > 0

    def check(self, name: str, claim: str, facts: Mapping[str, Any] | None = None) -> Check:
        """What was compared so far, as the check of a claim."""
        return Check(
            name=name,
            claim=claim,
            passed=self.passed,
            steps=self.steps,
            differences=self.differences(),
            first_failure=self.first_failure,
            facts=facts or {},
        )

    def differences(self) -> tuple[Difference, ...]:
        """The worst of each port, with the number of steps in which it was out of tolerance."""
        return tuple(
            dataclasses.replace(each, failures=self._failures.get(port, 0))
            for port, each in self.worst.items()
        )

    def _add(
        self, key: Key, value: Array, judged: Judged, locate: Locate, *, measured: bool
    ) -> list[tuple[int, Difference]]:
        """Keeps the worst of a value, and returns the state and place of its first failure."""
        if judged.gap.size == 0:
            return []
        port = str(key)
        share = judged.share.reshape(len(judged.gap), -1)
        by_state = share.max(axis=1)
        failing, known = np.flatnonzero(by_state > 1), np.where(np.isnan(by_state), -1.0, by_state)
        # The first failing state and the worst; the others have nothing to add.
        differences = []
        for state in (*failing[:1].tolist(), int(known.argmax())):
            inside = np.unravel_index(int(share[state].argmax()), judged.gap.shape[1:])
            place = (state, *(int(axis) for axis in inside))
            step, index = locate(key, state, place[1:])
            element = _element(self._elements.get(port, ()), index)
            differences.append(
                _difference(port, step, index, place, value, judged, measured, element)
            )
        if not len(failing):
            self._count(differences[0], 0)
            return []
        self._count(differences[-1], len(failing))
        return [(int(failing[0]), differences[0])]

    def _count(self, difference: Difference, failures: int) -> None:
        """Keeps a difference if it is the worst of its port, which failed so many times more."""
        port = difference.port
        known = self.worst.get(port)
        if known is None or difference.share > known.share:
            self.worst[port] = difference
        self._failures[port] = self._failures.get(port, 0) + failures

    def _fail(self, difference: Difference) -> None:
        self.first_failure = self.first_failure or difference


def _numbered(steps: Array) -> Locate:
    return lambda port, state, inside: (int(steps[state]), inside)


def _element(names: Sequence[str], place: Index) -> str:
    return names[place[-1]] if names and place else ""


def _difference(
    port: str,
    step: int,
    index: Index,
    place: Index,
    value: Array,
    judged: Judged,
    measured: bool,
    element: str,
) -> Difference:
    expected, got = float(judged.truth[place]), float(value[place])
    absolute, allowed = float(judged.gap[place]), float(judged.allowed[place])
    size = abs(expected)
    return Difference(
        port=port,
        absolute=absolute,
        relative=absolute / size if size > 0 and np.isfinite(size) else 0.0,
        step=step,
        index=index,
        expected=expected,
        got=got,
        element=element,
        allowed=allowed,
        roundings=ROUNDINGS * absolute / allowed if measured and allowed > 0 else None,
    )


def _shape_difference(port: str, step: int, truth: Array, value: Array) -> Difference:
    pairs = list(enumerate(zip(truth.shape, value.shape, strict=False)))
    axes = [(axis, one, other) for axis, (one, other) in pairs if one != other]
    # Of another number of axes only the number is said.
    same_axes = axes and truth.ndim == value.ndim
    axis, expected, got = axes[0] if same_axes else (None, truth.ndim, value.ndim)
    return Difference(
        port=f"{port}.shape" if same_axes else f"{port}.ndim",
        absolute=float("inf"), relative=0.0, step=step, index=() if axis is None else (axis,),
        expected=float(expected), got=float(got),
    )  # fmt: skip
