"""The budget: how far PyTorch's own rounding is from the exact policy, element by element.

An artifact computes the same numbers in another order. It is judged by its distance from what the
policy is in float64, in units of what PyTorch's float32 and its one-ulp twins do there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from roadworthy.spec.port import Array
from roadworthy.spec.run import Key, Values
from roadworthy.spec.tolerance import HIDDEN, NEGLIGIBLE, ROUNDINGS, TRIMMED, ulp
from roadworthy.verification.originals.original import TurningErrors, Yardstick
from roadworthy.verification.states import OneStep, StateLayout, States
from roadworthy.verification.twins import TWINS, moved_inputs, moved_memory


@dataclass(frozen=True, slots=True, eq=False)
class Budget:
    """What came out at some states, and how far rounding goes there: name → (states, …).

    `truth` is the exact value in float64 (choices as they are), `rounding` how far PyTorch is
    from it, `seen` what PyTorch gave: for the states themselves, and for each twin of them.
    """

    truth: Values
    rounding: Values
    seen: tuple[Values, ...]
    exact: bool

    @property
    def allowed(self) -> Values:
        """How far from the truth an artifact may be."""
        return {name: ROUNDINGS * value for name, value in self.rounding.items()}

    def elsewhere(self, name: Key, values: Array) -> Array:
        """What rounding does to values at states that were not measured, at most."""
        measured, sizes = self.rounding[name], np.abs(self.truth[name].astype(np.float64))
        largest = np.broadcast_to(measured.max(axis=0), values.shape).copy()
        if values.dtype.kind != "f":
            return largest
        sizes = np.where(np.isfinite(sizes), sizes, 0.0)
        # Of what is nearly zero by chance any rounding is a large part.
        sizes = np.maximum(sizes, np.median(sizes, axis=0))
        part = np.divide(measured, sizes, out=np.zeros_like(measured), where=sizes > 0).max(axis=0)
        finite = np.where(np.isfinite(values), np.abs(values), 0.0).astype(np.float64)
        return np.asarray(np.maximum(largest, part * finite))

    def spread(self, places: Array, original: Values) -> Budget:
        """The budget at all states, where it was measured at those `places` only.

        At the others the original is the truth, and its rounding the largest that was measured,
        as such or as a part of the value.
        """
        truth = {name: np.array(value) for name, value in original.items()}
        rounding = {}
        for name, value in original.items():
            if name not in self.truth:
                continue
            if self.truth[name].dtype.kind == "f":
                truth[name] = value.astype(np.float64)
            rounding[name] = self.elsewhere(name, value)
            rounding[name][places] = self.rounding[name]
            truth[name][places] = self.truth[name]
        for name in [each for each in self.truth if each not in original]:
            # The logits behind a choice: where they were not measured, nobody knows them.
            shape = (len(next(iter(original.values()))), *self.truth[name].shape[1:])
            truth[name], rounding[name] = np.full(shape, np.nan), np.full(shape, np.nan)
            rounding[name][places] = self.rounding[name]
            truth[name][places] = self.truth[name]
        seen = []
        for each in self.seen:
            whole = {name: np.array(original[name]) for name in each if name in original}
            for name, value in whole.items():
                value[places] = each[name]
            seen.append(whole)
        return Budget(truth, rounding, tuple(seen), self.exact)

    def measured(self, places: Array, there: Budget) -> Budget:
        """This budget, with what was measured at some more `places`."""
        truth, rounding = dict(self.truth), dict(self.rounding)
        for name, value in there.truth.items():
            truth[name], rounding[name] = truth[name].copy(), rounding[name].copy()
            truth[name][places] = value
            rounding[name][places] = np.fmax(rounding[name][places], there.rounding[name])
        seen = []
        for own, other in zip(self.seen, there.seen, strict=True):
            whole = {name: value.copy() for name, value in own.items()}
            for name, value in whole.items():
                value[places] = other[name]
            seen.append(whole)
        return Budget(truth, rounding, tuple(seen), self.exact)


def few(yardstick: Yardstick, layout: StateLayout, states: States) -> Array:
    """The places of as many of the states as can be measured."""
    one = layout.alone(states, 0)
    return states.few(yardstick.work(one.inputs, one.memory))


def twins_of(
    layout: StateLayout, states: States, rng: np.random.Generator, *, ulps: int, count: int = TWINS
) -> list[States]:
    """The states with all floats moved by one unit to `ulps` units, so many times."""
    # Where rows are states, limits of a port hold for what follows the first axis all the same.
    return [
        States(
            moved_inputs(layout.signature, states.inputs, rng, ulps=ulps),
            moved_memory(states.memory, rng, ulps=ulps),
        )
        for _ in range(count)
    ]


def flipped(
    yardstick: Yardstick, layout: StateLayout, states: States, rng: np.random.Generator
) -> list[Values]:
    """What twins give that are as far away as an artifact may be: over a step, something else."""
    # Of two that are equal, each twin takes one by chance: some more see both.
    count = 3 * TWINS if yardstick.turning else TWINS
    twins = twins_of(layout, states, rng, ulps=int(ROUNDINGS), count=count)
    # Some units away rounding is what it is here: it is measured once, and not for each twin.
    errors = [
        yardstick.turning_errors(part.inputs, part.memory) if yardstick.turning else None
        for part in layout.parts(states)
    ]
    found = []
    for twin in twins:
        parts = zip(layout.parts(twin), errors, strict=True)
        found.append(
            layout.joined(
                [turned(yardstick, rng, each)(part.inputs, part.memory) for part, each in parts]
            )
        )
    return found


def turned(yardstick: Yardstick, rng: np.random.Generator, errors: TurningErrors | None) -> OneStep:
    """A step in which equal values come in any order, another one at each call.

    `errors` were measured close by; without them they are measured at each call.
    """

    def function(inputs: Mapping[str, Array], memory: Mapping[str, Array]) -> Values:
        seed = int(rng.integers(1 << 31))
        return yardstick.turned(inputs, memory, ulps=int(ROUNDINGS), seed=seed, errors=errors)

    return function


def shaken(yardstick: Yardstick, rng: np.random.Generator, *, ulps: int) -> OneStep:
    """A step in which all that rounds is off by up to so many units, differently at each call."""

    def function(inputs: Mapping[str, Array], memory: Mapping[str, Array]) -> Values:
        seed = int(rng.integers(1 << 31))
        return yardstick.shaken(inputs, memory, ulps=ulps, seed=seed)

    return function


def measure(
    yardstick: Yardstick, layout: StateLayout, states: States, rng: np.random.Generator
) -> Budget:
    """The budget at each of the states."""
    rounded = layout.run(yardstick.rounded, states)
    exact = _exact(yardstick, layout, states)
    twins = [
        layout.run(shaken(yardstick, rng, ulps=1), each)
        for each in twins_of(layout, states, rng, ulps=1)
    ]
    truth = rounded if exact is None else exact
    whole = [
        name
        for name, value in rounded.items()
        if value.dtype.kind != "f" and name not in yardstick.quantities
    ]
    choices = () if exact is None else ({name: exact[name] for name in whole},)
    return Budget(
        truth={
            name: value if name in whole else truth[name].astype(np.float64)
            for name, value in rounded.items()
        },
        rounding={
            name: np.zeros(value.shape)
            if name in whole
            else _rounding(value, truth[name], [each[name] for each in twins])
            for name, value in rounded.items()
        },
        seen=(rounded, *twins, *choices),
        exact=exact is not None,
    )


def _exact(yardstick: Yardstick, layout: StateLayout, states: States) -> Values | None:
    def function(inputs: Mapping[str, Array], memory: Mapping[str, Array]) -> Values:
        result = yardstick.exact(inputs, memory)
        if result is None:
            raise _NoFloat64
        return result

    try:
        return layout.run(function, states)
    except _NoFloat64:
        return None


class _NoFloat64(Exception):
    """The graph cannot be run in float64."""


def _rounding(rounded: Array, truth: Array, twins: Sequence[Array]) -> Array:
    """The largest distance of the call and its twins, at least the usual one, and a unit."""
    own = _typical(np.max([_apart(each, truth) for each in (rounded, *twins)], axis=0))
    among = _typical(np.max([_apart(each, rounded) for each in twins], axis=0))
    if len(truth) >= TWINS:
        finite = np.where(np.isfinite(truth), truth, 0.0).astype(np.float64)
        with np.errstate(over="ignore"):  # an exponential in float64 goes further than its square
            moves = finite.std(axis=0)
        own = np.minimum(own, np.maximum(HIDDEN / ROUNDINGS * moves, among))
    unit: Array | float = ulp(truth, rounded.dtype) if rounded.dtype.kind == "f" else 0.0
    if rounded.dtype == np.float64:
        unit = np.maximum(unit, NEGLIGIBLE * _usual_size(truth))
    return np.asarray(np.maximum(own, among) + unit)


def _usual_size(values: Array) -> Array:
    """The middle one of the sizes of each element over the states; 0 where none is finite."""
    sizes = np.sort(np.where(np.isfinite(values), np.abs(values), np.inf), axis=0)
    middle = np.isfinite(sizes).sum(axis=0, keepdims=True) // 2
    found = np.take_along_axis(sizes, middle, axis=0)[0]
    return np.where(np.isfinite(found), found, 0.0)


def _apart(one: Array, other: Array) -> Array:
    """Distances; 0 where either is not finite, since that is no matter of rounding."""
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.abs(one.astype(np.float64) - other.astype(np.float64))
    return np.where(np.isfinite(gap), gap, 0.0)


def _typical(distances: Array) -> Array:
    """Each state's own distance, and at least the mean of the element over the calmer states."""
    count = len(distances)
    kept = count - max(1, round(TRIMMED * count)) if count >= TWINS else count
    usual = np.partition(distances, kept - 1, axis=0)[:kept].mean(axis=0)
    return np.asarray(np.maximum(distances, usual))
