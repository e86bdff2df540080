"""Input values to try a policy on: ordinary ones, and those on which weak exports break.

A port is drawn row by row. Most rows are ordinary; some lie at the thresholds that the graph
compares with; each corner (see `corners`) is there once where there is room for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from roadworthy.spec.corners import LARGE_ROW_BYTES, corners
from roadworthy.spec.floats import at_thresholds, ordinary_floats
from roadworthy.spec.port import BATCH, Array, Port
from roadworthy.spec.ranges import Range
from roadworthy.spec.sampling import Sampling
from roadworthy.spec.signature import Signature

# Large rows are drawn from a small pool, so that a trace stays a few hundred kilobytes: one row of
# an image is larger than all the numbers in a trace of joint angles.
POOL_ROWS = 12
POOL_THRESHOLD_ROWS = 4
# The parts of all rows that lie at thresholds, that repeat the row before, that equal their
# neighbours; and the most that corners may take.
AT_THRESHOLDS = 1 / 6
HELD = 0.04
EQUAL_ROWS = 0.03
CORNERS = 1 / 3

Draw = Callable[[int], Array]


def draw(
    signature: Signature,
    rng: np.random.Generator,
    *,
    steps: int,
    rows: int,
    fixed: Mapping[str, int] | None = None,
    sampling: Sampling | None = None,
) -> dict[str, Array]:
    """Values for every input, `steps` deep, for `rows` rows: port name → (steps, *shape)."""
    known = sampling or Sampling()
    dims = dict.fromkeys(signature.symbols, 4) | dict(fixed or {}) | {BATCH: rows}
    ports = [_Rows(port, port.sizes(dims), known) for port in signature.inputs]
    values = [port.drawn(rng, steps) for port in ports]
    seen = [
        array for port, array in zip(ports, values, strict=True) if port.port.about.noise is None
    ]
    _repeat(rng, [array for array in seen if array.shape[1] == rows], steps, rows)
    first = int(rng.integers(0, steps))
    free = np.ones((steps, rows), dtype=bool)
    _stand_still(ports, values, free, known.life)
    for port, array in zip(ports, values, strict=True):
        port.place_corners(rng, array, free if array.shape[1] == rows else None, first)
    return {port.port.name: port.restored(array) for port, array in zip(ports, values, strict=True)}


def draw_ordinary(
    signature: Signature,
    rng: np.random.Generator,
    *,
    steps: int,
    rows: int,
    sampling: Sampling | None = None,
) -> dict[str, Array]:
    """As `draw`, of one scale and without corners: what a policy meets in its daily work."""
    known = sampling or Sampling()
    dims = dict.fromkeys(signature.symbols, 4) | {BATCH: rows}
    ports = [_Rows(port, port.sizes(dims), known, daily=True) for port in signature.inputs]
    return {port.port.name: port.restored(port.drawn(rng, steps)) for port in ports}


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


class _Rows:
    """One port, with its rows on the axis after the steps wherever the port itself has them."""

    def __init__(
        self, port: Port, sizes: tuple[int, ...], sampling: Sampling, *, daily: bool = False
    ) -> None:
        self.port = port
        self._axis = (0 if sizes else None) if port.batch_axis is None else port.batch_axis
        at = self._axis
        self._count = 1 if at is None else sizes[at]
        self._shape = () if at is None else (*sizes[:at], *sizes[at + 1 :])
        self._sampling = sampling
        self._daily = daily
        left_out = sampling.left_out.get(port.name, {})
        tried = corners(port, self._shape, sampling.thresholds)
        self._corners = {name: row for name, row in tried.items() if name not in left_out}

    def drawn(self, rng: np.random.Generator, steps: int) -> Array:
        """(steps, rows, …): ordinary rows, and rows at thresholds."""
        count = steps * self._count
        if self.port.about.noise is not None:
            values = noise(self.port, rng, (count, *self._shape))
        elif self._is_large():
            pool = [self._ordinary(rng, POOL_ROWS)]
            if self._has_thresholds():
                pool.append(self._at_thresholds(rng, pool[0][:POOL_THRESHOLD_ROWS]))
            kept = np.concatenate(pool)
            values = kept[rng.integers(0, len(kept), size=count)]
        else:
            values = self._ordinary(rng, count)
            if self._has_thresholds():
                chosen = np.flatnonzero(rng.random(count) < AT_THRESHOLDS)
                values[chosen] = self._at_thresholds(rng, values[chosen])
        return values.reshape(steps, self._count, *self._shape)

    def place_corners(
        self, rng: np.random.Generator, values: Array, free: Array | None, first: int
    ) -> None:
        """Writes each corner into a row of its own, as many as fit; the first where it is the
        turn of all ports."""
        flat = values.reshape(-1, *self._shape)
        open_ = np.ones(values.shape[:2], dtype=bool) if free is None else free.copy()
        rows = list(self._corners.values())
        if rows and open_[first, 0] and open_.size * CORNERS >= 1:
            values[first, 0] = rows.pop(0)
            open_[first, 0] = False
        places = rng.permutation(np.flatnonzero(open_))[: int(open_.size * CORNERS)]
        for place, row in zip(places, rng.permutation(len(rows)), strict=False):
            flat[place] = rows[row]

    def still(self, values: Array) -> Array:
        """The row at which a port stands still: zeros where that is possible."""
        first: Array = values[0, 0]
        return self._corners.get("zeros", first)

    def restored(self, values: Array) -> Array:
        """The values with their rows where the port has them."""
        if self._axis is None:
            alone: Array = values[:, 0]
            return alone
        return np.moveaxis(values, 1, 1 + self._axis)

    def _is_large(self) -> bool:
        size = int(np.prod(self._shape, dtype=np.int64)) * np.dtype(self.port.dtype).itemsize
        return size > LARGE_ROW_BYTES

    def _has_thresholds(self) -> bool:
        numbers = np.dtype(self.port.dtype).kind == "f"
        return numbers and bool(self._sampling.thresholds) and not self._daily

    def _ordinary(self, rng: np.random.Generator, count: int) -> Array:
        shape = (count, *self._shape)
        kind = np.dtype(self.port.dtype).kind
        if kind == "b":
            return _flags(rng, shape)
        if kind in "iu":
            limits = Range.of(self.port)
            whole: Array = rng.integers(
                limits.low, limits.high, size=shape, endpoint=True, dtype=self.port.dtype
            )
            return whole
        typical = self._sampling.typical.get(self.port.name)
        return ordinary_floats(self.port, rng, shape, typical, daily=self._daily)

    def _at_thresholds(self, rng: np.random.Generator, rows: Array) -> Array:
        sampling = self._sampling
        typical = sampling.typical.get(self.port.name)
        return at_thresholds(self.port, rng, rows, sampling.thresholds, typical)


def _repeat(rng: np.random.Generator, values: list[Array], steps: int, rows: int) -> None:
    """Changes some rows into the one before them in time, and some into their neighbour."""
    held = rng.random((steps, rows)) < HELD
    equal = rng.random(steps) < EQUAL_ROWS
    for step in range(1, steps):
        for array in values:
            array[step, held[step]] = array[step - 1, held[step]]
            if equal[step]:
                array[step] = array[step, :1]


def _stand_still(ports: list[_Rows], values: list[Array], free: Array, life: int) -> None:
    """Changes one row into one that stands still for a whole life, where there is time for it.

    What counts the steps without movement, or below a threshold, comes to its end there.
    """
    steps, rows = free.shape
    begin, row = (0, 1) if rows > 1 else (life, 0)
    if life == 0 or begin + life > steps:
        return
    free[begin : begin + life, row] = False
    for port, array in zip(ports, values, strict=True):
        if port.port.about.noise is None and array.shape[1] == rows:
            array[begin : begin + life, row] = port.still(array)


def _flags(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    flags: Array = rng.random(shape) < 0.6
    if len(shape) > 1 and shape[-1] > 1:
        # A mask that allows nothing, or hides everything, often asks a question without an
        # answer: it is a corner, and ordinary rows have something of both.
        order = rng.permuted(np.broadcast_to(np.arange(shape[-1]), shape), axis=-1)
        np.put_along_axis(flags, order[..., :1], True, axis=-1)
        np.put_along_axis(flags, order[..., 1:2], False, axis=-1)
    return flags
