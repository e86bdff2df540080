"""Rows of floats: within their limits, on several scales, and at the thresholds of the graph."""

from __future__ import annotations

import numpy as np

from roadworthy.spec.port import Array, Port
from roadworthy.spec.ranges import Range
from roadworthy.spec.sampling import Typical

EXTREMES = (0.0, 1.0, -1.0, 10.0, -10.0, 100.0, -100.0)
# The part of all elements that take one of them, or an end of their range.
EXTREME = 0.05
# Whole rows on a scale of their own, and the exponents of ten between which it lies.
OTHER_SCALE = 0.35
ROW_EXPONENTS = (-3.0, 4.0)
# Rows with single large elements, which leave the sums of a row well conditioned.
SINGLE = 0.1
SINGLE_EXPONENTS = (1.0, 4.0)
HEAVY_TAILED = 0.05
LARGEST = 1e4
# Half precision overflows inside a network long before its inputs do.
LARGEST_HALF = 30.0
# Rows of length one, whole or in blocks of four: directions, quaternions.
UNIT_LENGTH = 0.06
QUATERNION = 4
# Rows around the statistics of a normaliser, and how many deviations wide.
TYPICAL = 0.6
TYPICAL_WIDTHS = (1.0, 1.0, 3.0, 8.0)
# Where a port has limits: rows of ordinary values that lie inside, beside those from all of it.
ORDINARY_INSIDE = 0.3
# How far beside a threshold, besides one unit in the last place: closer than anyone would set a
# limit, and further than rounding may turn a comparison.
BESIDE = (1e-5, 1e-3)
# Parts of a row that lie at thresholds, in turn; and rows whose length is at one.
AT_ONCE = (1.0, 0.5, 0.15)
BY_LENGTH = 0.25


def ordinary_floats(
    port: Port,
    rng: np.random.Generator,
    shape: tuple[int, ...],
    typical: Typical | None,
    *,
    daily: bool,
) -> Array:
    """(count, *row): values inside the limits; without limits of several scales, or of one."""
    limits = Range.of(port)
    low, high = (np.broadcast_to(each, shape) for each in (limits.low, limits.high))
    free = _free(port, rng, shape, daily=daily)
    if typical is not None:
        near = _typical(typical, rng, shape)
        free = np.where(_some_rows(rng, shape, TYPICAL), near, free)
    both = np.isfinite(low) & np.isfinite(high)
    bottom, top = (np.where(np.isfinite(each), each, 0.0) for each in (low, high))
    uniform = bottom + rng.random(shape) * np.where(both, top - bottom, 0.0)
    one_sided = np.where(np.isfinite(low), bottom + np.abs(free), top - np.abs(free))
    unlimited = ~np.isfinite(low) & ~np.isfinite(high)
    spread = np.where(both, uniform, np.where(unlimited, free, one_sided))
    plain = limits.inside(free, spread)
    values = np.where(_some_rows(rng, shape, ORDINARY_INSIDE), plain, spread)
    end = np.choose(rng.integers(0, 4, size=shape), limits.ends(port.dtype))
    values = np.where((rng.random(shape) < EXTREME) & np.isfinite(end), end, values)
    with np.errstate(over="ignore"):
        rounded: Array = values.astype(port.dtype)
    largest = np.finfo(port.dtype).max
    return np.clip(rounded, -largest, largest)


def at_thresholds(
    port: Port,
    rng: np.random.Generator,
    rows: Array,
    thresholds: tuple[float, ...],
    typical: Typical | None,
) -> Array:
    """The rows with elements at the thresholds, and a little to each side of them."""
    if not rows.size:
        return rows
    values, near = _beside(port, thresholds)
    count, shape = len(rows), rows.shape
    flat = rows.reshape(count, -1)
    size = flat.shape[1]
    # Every element meets every value in its turn, whatever the dice say.
    turn = rng.integers(0, len(values)) + np.arange(count)[:, None] + np.arange(size)[None]
    chosen = values[turn % len(values)].reshape(shape)
    if typical is not None:
        scaled = near[turn % len(near)].reshape(shape)
        moved = np.asarray(typical.mean) + np.asarray(typical.spread) * scaled
        chosen = np.where(_some_rows(rng, shape, 0.5), moved, chosen)
    share = np.asarray(AT_ONCE)[np.arange(count) % len(AT_ONCE)]
    taken = rng.random(shape) < share.reshape(-1, *(1,) * (len(shape) - 1))
    result = np.where(taken, chosen, rows.astype(np.float64))
    length = np.linalg.norm(flat.astype(np.float64), axis=1)
    wanted = np.abs(near[turn[:, 0] % len(near)]) / np.where(length > 0, length, 1.0)
    long = (flat * wanted[:, None]).reshape(shape)
    result = np.where(_some_rows(rng, shape, BY_LENGTH), long, result)
    with np.errstate(over="ignore"):
        rounded = result.astype(port.dtype)
    return Range.of(port).inside(rounded, rows).astype(port.dtype)


def _beside(port: Port, thresholds: tuple[float, ...]) -> tuple[Array, Array]:
    """Each threshold and its negative: exactly, by one unit in the last place, by a little; and
    the last alone, for what is computed from an input before it is compared: there rounding
    decides what happens at the threshold itself, and either is right."""
    exact = np.asarray(thresholds, dtype=np.float64)
    with np.errstate(over="ignore"):
        exact = np.unique(np.concatenate([exact, -exact]).astype(port.dtype))
    exact = exact[np.isfinite(exact)]
    ulps = [np.nextafter(exact, np.asarray(end, dtype=port.dtype)) for end in (-np.inf, np.inf)]
    sides = [side * by for by in BESIDE for side in (-1, 1)]
    near = np.concatenate([exact.astype(np.float64) * (1 + by) for by in sides])
    return np.concatenate([exact, *ulps, near]).astype(np.float64), near


def _free(port: Port, rng: np.random.Generator, shape: tuple[int, ...], *, daily: bool) -> Array:
    """Values of a port without limits."""
    values = rng.standard_normal(shape)
    largest = LARGEST_HALF if port.dtype == "float16" else LARGEST
    if not daily:
        per_row = (shape[0], *(1,) * (len(shape) - 1))
        scale = 10.0 ** rng.uniform(*ROW_EXPONENTS, size=per_row)
        values = np.where(_some_rows(rng, shape, OTHER_SCALE), values * scale, values)
        heavy = rng.standard_cauchy(shape)
        values = np.where(_some_rows(rng, shape, HEAVY_TAILED), heavy, values)
        values = np.where(_some_rows(rng, shape, SINGLE), _one_large(rng, values), values)
    values = np.where(rng.random(shape) < EXTREME, rng.choice(EXTREMES, size=shape), values)
    if not daily:
        values = np.where(_some_rows(rng, shape, UNIT_LENGTH), _unit_length(values), values)
    return np.clip(values, -largest, largest)


def _one_large(rng: np.random.Generator, values: Array) -> Array:
    """The rows, each with one element that is far larger than the others."""
    flat = values.reshape(len(values), -1).copy()
    places = rng.integers(0, flat.shape[1], size=len(flat))
    sizes = 10.0 ** rng.uniform(*SINGLE_EXPONENTS, size=len(flat))
    flat[np.arange(len(flat)), places] = sizes * rng.choice((-1.0, 1.0), size=len(flat))
    return flat.reshape(values.shape)


def _unit_length(values: Array) -> Array:
    """Each row as directions: every other one whole, the rest in blocks of four."""
    if values.ndim < 2:
        return values
    whole = values / _length(values)
    width = values.shape[-1] // QUATERNION * QUATERNION
    if width == 0:
        return whole
    blocks = values[..., :width].reshape(*values.shape[:-1], -1, QUATERNION)
    turned = (blocks / _length(blocks)).reshape(*values.shape[:-1], width)
    parts = np.concatenate([turned, values[..., width:]], axis=-1)
    alternate = (np.arange(len(values)) % 2 == 0).reshape(-1, *(1,) * (values.ndim - 1))
    return np.where(alternate, whole, parts)


def _length(values: Array) -> Array:
    length = np.linalg.norm(values, axis=-1, keepdims=True)
    return np.where(length > 0, length, 1.0)


def _typical(typical: Typical, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    per_row = (shape[0], *(1,) * (len(shape) - 1))
    width = rng.choice(TYPICAL_WIDTHS, size=per_row)
    spread = np.asarray(typical.spread, dtype=np.float64)
    near: Array = np.asarray(typical.mean) + spread * width * rng.standard_normal(shape)
    return near


def _some_rows(rng: np.random.Generator, shape: tuple[int, ...], part: float) -> Array:
    """A mask of whole rows, to broadcast with `shape`."""
    rows: Array = rng.random(shape[0]) < part
    return rows.reshape(-1, *(1,) * (len(shape) - 1))
