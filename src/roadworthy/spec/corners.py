"""Corners: single rows of a port on which weak exports break, each with a name."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from roadworthy.spec.port import Array, Port
from roadworthy.spec.ranges import Range

# A one-hot row for each of so many elements; with more they are spread over the row.
MOST_ONE_HOT = 12
QUATERNION = 4
# As `Range.ends` gives them.
ENDS = (
    "at the low limit",
    "just above the low limit",
    "just below the high limit",
    "at the high limit",
)
# Whole numbers beside thresholds that are tried where a port has no limits.
MOST_INTEGERS = 24
# An angle after days without a wrap.
MANY_TURNS_RAD = 1e5
GOLDEN = (math.sqrt(5) - 1) / 2
# Rows whose bytes are more than this get the plain corners only: a trace holds each of them.
LARGE_ROW_BYTES = 4096


def corners(
    port: Port, shape: tuple[int, ...], thresholds: tuple[float, ...] = ()
) -> dict[str, Array]:
    """Name → one row of `shape`; all within the limits of the port."""
    if port.about.noise is not None:
        return {}
    kind = np.dtype(port.dtype).kind
    if kind == "b":
        return {
            "all False": np.zeros(shape, dtype=bool),
            "all True": np.ones(shape, dtype=bool),
        }
    limits = Range.of(port)
    if kind in "iu":
        found = _whole_numbers(port, thresholds if limits.unlimited else ())
        # An index without limits may be any: the original says which it takes.
        anywhere = limits.unlimited
    else:
        found, anywhere = _floats(port, shape), False
    rows = {name: np.broadcast_to(row, shape).astype(port.dtype) for name, row in found}
    return {name: row for name, row in rows.items() if anywhere or limits.holds(row)}


def _whole_numbers(port: Port, thresholds: tuple[float, ...]) -> Iterator[tuple[str, Array]]:
    limits = Range.of(port)
    yield "zeros", np.asarray(0)
    yield "at the low limit", limits.low
    yield "at the high limit", limits.high
    ends = np.iinfo(port.dtype)
    beside = {int(each) + step for each in thresholds for step in (-1, 0, 1)}
    further = {-1} if limits.unlimited else set()
    for value in sorted(further | set(sorted(beside)[:MOST_INTEGERS])):
        if ends.min <= value <= ends.max:
            yield str(value), np.asarray(value)


def _floats(port: Port, shape: tuple[int, ...]) -> Iterator[tuple[str, Array]]:
    yield "zeros", np.asarray(0.0)
    yield "-0.0", np.asarray(-0.0)
    yield "ones", np.asarray(1.0)
    yield "minus ones", np.asarray(-1.0)
    yield from _ends(port)
    size = int(np.prod(shape, dtype=np.int64))
    if size * np.dtype(port.dtype).itemsize > LARGE_ROW_BYTES:
        return
    yield "all equal", np.asarray(0.3)
    pi = np.asarray(math.pi, dtype=port.dtype)
    yield "π", pi
    yield "-π", -pi
    yield "around ±π", _tiled(shape, [pi, -pi, *_beside(pi), *_beside(-pi), pi / 2, -pi / 2])
    if np.dtype(port.dtype).itemsize > 2:
        # Of one sign and all different: sums and products that cancel would ask for the last bits
        # of 1e5, not for an angle.
        turns = MANY_TURNS_RAD * (1 - np.arange(size).reshape(shape) * GOLDEN % 0.5)
        yield "after many turns", turns
        yield "after many turns back", -turns
    yield from _one_hot(shape, size)
    if shape and shape[-1] >= QUATERNION:
        yield from _quaternions(shape)


def _ends(port: Port) -> Iterator[tuple[str, Array]]:
    for name, row in zip(ENDS, Range.of(port).ends(port.dtype), strict=True):
        if np.isfinite(row).any():
            yield name, np.where(np.isfinite(row), row, 0)


def _one_hot(shape: tuple[int, ...], size: int) -> Iterator[tuple[str, Array]]:
    if size < 2:
        return
    for place in np.unique(np.linspace(0, size - 1, min(size, MOST_ONE_HOT)).astype(int)).tolist():
        row = np.zeros(size)
        row[place] = 1.0
        yield f"one-hot {place}", row.reshape(shape)


def _quaternions(shape: tuple[int, ...]) -> Iterator[tuple[str, Array]]:
    """Units on the axes in every block of four: wherever a quaternion begins, it is one of them."""
    for axis, name in enumerate("wxyz"):
        block = np.eye(QUATERNION)[axis]
        yield f"quaternions on {name}", _tiled(shape, list(block))
        # The negative zeros are what a product with -1 gives: atan2 tells them apart.
        yield f"quaternions on -{name}", _tiled(shape, list(-block))


def _tiled(shape: tuple[int, ...], values: list[float | Array]) -> Array:
    return np.resize(np.asarray(values, dtype=np.float64), shape)


def _beside(value: Array) -> tuple[Array, Array]:
    return np.nextafter(value, value * 2), np.nextafter(value, value * 0)
