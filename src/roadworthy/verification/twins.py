"""Twins: the same values moved by some units in the last place, as rounding moves them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from roadworthy.spec.port import Array, Port
from roadworthy.spec.signature import Signature
from roadworthy.spec.stepping import Arrays

# So many twins show how far rounding goes: more hardly move the largest of them.
TWINS = 8


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
