"""Input values to try a policy on: ordinary ones, and the extremes that break weak exports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from roadworthy.spec.port import BATCH, Array, Port
from roadworthy.spec.signature import Signature

EXTREMES = (0.0, 1.0, -1.0, 10.0, -10.0, 100.0, -100.0)
# One row of an image is larger than all the numbers in a trace of joint angles; large rows are
# drawn from a small pool, so that a trace stays a few hundred kilobytes.
LARGE_ROW_BYTES = 4096
POOL_ROWS = 16


def draw(
    signature: Signature,
    rng: np.random.Generator,
    *,
    steps: int,
    rows: int,
    fixed: Mapping[str, int] | None = None,
) -> dict[str, Array]:
    """Values for every input, `steps` deep, for `rows` rows: port name → (steps, *shape)."""
    dims = dict.fromkeys(signature.symbols, 4) | dict(fixed or {}) | {BATCH: rows}
    return {
        port.name: _draw_port(port, rng, (steps, *port.sizes(dims))) for port in signature.inputs
    }


def _draw_port(port: Port, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    row_bytes = int(np.prod(shape[2:], dtype=np.int64)) * np.dtype(port.dtype).itemsize
    if len(shape) > 2 and row_bytes > LARGE_ROW_BYTES:
        pool = _values(port, rng, (POOL_ROWS, *shape[2:]))
        return pool[rng.integers(0, POOL_ROWS, size=shape[:2])]
    return _values(port, rng, shape)


def _values(port: Port, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    kind = np.dtype(port.dtype).kind
    if kind == "b":
        return _flags(rng, shape)
    if kind in "iu":
        return _integers(port, rng, shape)
    return _floats(port, rng, shape)


def noise(port: Port, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Values for a noise port, as the runtime draws them."""
    # NumPy has no generator of halves; rounding 1 - 2⁻²⁴ up to 1 would leave the interval.
    exact: Any = np.float64 if port.dtype == "float64" else np.float32
    if port.about.noise == "normal":
        normal: Array = rng.standard_normal(shape, dtype=exact).astype(port.dtype)
        return normal
    below_one = np.nextafter(np.ones((), dtype=port.dtype), np.zeros((), dtype=port.dtype))
    uniform: Array = rng.random(shape, dtype=exact).astype(port.dtype)
    return np.minimum(uniform, below_one)


def _flags(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    flags: Array = rng.random(shape) < 0.6
    if len(shape) > 2 and shape[-1] > 1:
        # A mask that allows nothing, or hides everything, asks a question without an answer.
        order = rng.permuted(np.broadcast_to(np.arange(shape[-1]), shape), axis=-1)
        np.put_along_axis(flags, order[..., :1], True, axis=-1)
        np.put_along_axis(flags, order[..., 1:2], False, axis=-1)
    return flags


def _integers(port: Port, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    low, high = port.about.low, port.about.high
    # Without limits an integer is taken for a small index or, in eight bits, for a pixel.
    top = 255 if port.dtype == "uint8" else 1
    floor = np.asarray(min(0, np.min(high)) if low is None and high is not None else low or 0)
    ceiling = np.asarray(floor + top if high is None else high)
    limits = np.iinfo(port.dtype)
    floor = np.clip(floor, limits.min, limits.max).astype(np.int64)
    ceiling = np.clip(ceiling, limits.min, limits.max - 1).astype(np.int64)
    return rng.integers(floor, ceiling + 1, size=shape).astype(port.dtype)


def _floats(port: Port, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    if port.about.noise is not None:
        return noise(port, rng, shape)
    low, high = port.about.low, port.about.high
    values = rng.standard_normal(shape)
    extreme = rng.choice(EXTREMES, size=shape)
    values = np.where(rng.random(shape) < 0.05, extreme, values)
    if low is not None and high is not None:
        finite_low, finite_high = np.clip(low, -100, 100), np.clip(high, -100, 100)
        inside = finite_low + rng.random(shape) * (finite_high - finite_low)
        edge = np.where(rng.random(shape) < 0.5, finite_low, finite_high)
        values = np.where(rng.random(shape) < 0.05, edge, inside)
    return values.astype(port.dtype)
