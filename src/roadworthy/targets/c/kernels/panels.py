"""How weights lie in memory: in panels of columns, so that one row of a panel is one run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from roadworthy.spec.port import Array
from roadworthy.targets.c.values import Buffer

Storage = Literal["float32", "float16", "int8"]
PAD = 16
DOT_COLUMNS = 4


class Panels(NamedTuple):
    """Columns that lie side by side, a power of two from 16 to 128.

    vector  in the weights that a single row is multiplied with, each of which is read once: narrow
            panels are read from one end to the other, several at a time where registers are wide
    matrix  in those of several rows, which are read again and again
    """

    vector: int = 32
    matrix: int = 128


PANELS = Panels()


def is_float(dtype: np.dtype) -> bool:
    return dtype in (np.dtype(np.float32), np.dtype(np.float16))


def is_dot(n: int, rows: int) -> bool:
    """Whether there are so few columns that each lies by itself."""
    return n <= DOT_COLUMNS and rows == 1


def padded(n: int) -> int:
    return -(-n // PAD) * PAD


def _panels(n: int, widest: int) -> Iterator[tuple[int, int]]:
    """First column and width of each panel: 128 as long as it goes, then 64, 32, 16."""
    start, width = 0, widest
    while start < n:
        while width > n - start:
            width //= 2
        yield start, width
        start += width


def places(k: int, n: int, *, rows: int, dtype: np.dtype, panels: Panels = PANELS) -> Array:
    """Where element (k, n) of a matrix lies in its packed form."""
    if not is_float(dtype):
        return np.arange(k * n).reshape(k, n)
    if is_dot(n, rows):
        return np.arange(n) * k + np.arange(k)[:, None]
    found = np.empty((k, padded(n)), np.int64)
    for start, width in _panels(padded(n), panels.vector if rows == 1 else panels.matrix):
        found[:, start : start + width] = (
            start * k + np.arange(k)[:, None] * width + np.arange(width)
        )
    return found[:, :n]


def packed_size(k: int, n: int, *, rows: int, dtype: np.dtype) -> int:
    return k * (n if is_dot(n, rows) or not is_float(dtype) else padded(n))


def packed(weights: Array, *, rows: int, panels: Panels = PANELS) -> Buffer:
    """A matrix (k, n) of constants as the kernel reads it."""
    k, n = weights.shape
    dtype = weights.dtype
    kept = np.dtype(np.float32) if is_float(dtype) else dtype
    numbers = np.zeros(packed_size(k, n, rows=rows, dtype=dtype), kept)
    numbers[places(k, n, rows=rows, dtype=dtype, panels=panels)] = weights
    return held(numbers)


def stored(
    weights: Array, *, rows: int, storage: Storage, panels: Panels = PANELS
) -> tuple[Buffer, Array | None]:
    """A matrix (k, n) of constants in some storage, and the scale of each column of whole numbers.

    Half floats and bytes lie row by row, and become floats as they are read.
    """
    if storage == "float32" or not is_float(weights.dtype):
        return packed(weights, rows=rows, panels=panels), None
    if storage == "float16" or weights.dtype == np.float16:
        with np.errstate(over="ignore"):
            halves = weights.astype(np.float16)
        beyond = np.isinf(halves) & np.isfinite(weights)
        if beyond.any():
            raise NotImplementedError(
                f"weights of float16, which end at 65504, where one is "
                f"{np.abs(weights[beyond]).max():.4g}"
            )
        return held(halves.ravel().view(np.uint16)), None
    if not np.isfinite(weights).all():
        raise NotImplementedError("weights of int8 where one is NaN or infinite")
    largest = np.abs(weights).max(axis=0).astype(np.float64)
    scale = np.where(largest > 0, largest / 127, 1.0)
    return held(np.rint(weights / scale).astype(np.int8).ravel()), scale.astype(np.float32)


def held(numbers: Array) -> Buffer:
    return Buffer(dtype=numbers.dtype, size=numbers.size, role="const", data=numbers)
