"""Comparing values port by port, and remembering the worst place."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from roadworthy.spec.certificate import Check, Difference
from roadworthy.spec.port import Array
from roadworthy.spec.signature import Signature
from roadworthy.spec.tolerance import gaps


class Comparison:
    """Collects differences over many steps: the worst of each port, and the first failure."""

    def __init__(self, signature: Signature | None = None) -> None:
        ports = (*signature.inputs, *signature.outputs) if signature else ()
        self._elements = {port.name: port.about.elements for port in ports}
        self.worst: dict[str, Difference] = {}
        self.first_failure: Difference | None = None
        self.steps = 0
        self._failures: dict[str, int] = {}

    def add(self, step: int, expected: dict[str, Array], got: dict[str, Array]) -> None:
        """One step's values; `got` must have every port of `expected`."""
        self.steps += 1
        for port, truth in expected.items():
            self._add_port(step, port, truth, got[port])

    def add_steps(
        self, first: int, expected: dict[str, Array], got: dict[str, Array], *, count: int
    ) -> None:
        """The values of many steps, stacked on a first axis, that count as `count` steps."""
        self.steps += count
        for port, truth in expected.items():
            self._add_stack(first, port, truth, got[port])

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

    def _add_stack(self, first: int, port: str, truth: Array, value: Array) -> None:
        if truth.shape != value.shape or not truth.size:
            self._add_port(first, port, truth, value)
            return
        gap, allowed = gaps(truth, value)
        excess = (gap - allowed).reshape(len(truth), -1).max(axis=1)
        worst = int(np.argmax(gap.reshape(len(truth), -1).max(axis=1)))
        failing = np.flatnonzero(excess > 0)
        # The worst step and every failing one; the others have nothing to add.
        for step in sorted({worst, *failing.tolist()}):
            self._add_port(first + step, port, truth[step], value[step])

    def _add_port(self, step: int, port: str, truth: Array, value: Array) -> None:
        if truth.shape != value.shape:
            self._fail(_shape_difference(port, step, truth, value))
            return
        if truth.size == 0:
            return
        gap, allowed = gaps(truth, value)
        excess = gap - allowed
        worst = np.unravel_index(int(np.argmax(excess)), truth.shape)
        element = _element(self._elements.get(port, ()), worst)
        difference = _difference(port, step, worst, truth, value, gap, element)
        known = self.worst.get(port)
        if known is None or difference.absolute > known.absolute:
            self.worst[port] = difference
        if excess[worst] > 0:
            self._fail(difference)

    def _fail(self, difference: Difference) -> None:
        self._failures[difference.port] = self._failures.get(difference.port, 0) + 1
        self.worst.setdefault(difference.port, difference)
        if self.first_failure is None:
            self.first_failure = difference

    def differences(self) -> tuple[Difference, ...]:
        """The worst of each port, with the number of steps in which it was out of tolerance."""
        return tuple(
            dataclasses.replace(each, failures=self._failures.get(port, 0))
            for port, each in self.worst.items()
        )


def _element(names: Sequence[str], place: tuple[Any, ...]) -> str:
    return names[int(place[-1])] if names and place else ""


def _difference(
    port: str,
    step: int,
    place: tuple[Any, ...],
    truth: Array,
    value: Array,
    gap: Array,
    element: str,
) -> Difference:
    expected, got, absolute = float(truth[place]), float(value[place]), float(gap[place])
    size = abs(expected)
    return Difference(
        port=port,
        absolute=absolute,
        relative=absolute / size if size > 0 and np.isfinite(size) else 0.0,
        step=step,
        index=tuple(int(i) for i in place),
        expected=expected,
        got=got,
        element=element,
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
