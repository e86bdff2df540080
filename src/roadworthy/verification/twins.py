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
    """Floats moved at random by one unit to `ulps` units; zeros and whole numbers stay."""
    if values.dtype.kind != "f":
        return values
    units = 1 if ulps == 1 else rng.integers(1, ulps + 1, size=values.shape)
    signs = rng.integers(0, 2, size=values.shape, dtype=np.int8) * 2 - 1
    # In bits the neighbour of a float is the next integer: away from zero, or towards it.
    bits = values.view(f"i{values.dtype.itemsize}") + (signs * units).astype(
        f"i{values.dtype.itemsize}"
    )
    stays = (values == 0) | ~np.isfinite(values)
    result: Array = np.where(stays, values, bits.view(values.dtype))
    return np.where(np.isfinite(result), result, values).astype(values.dtype)


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
