"""The range of a port: its limits, element by element, as its dtype can hold them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.spec.port import Array, Port, Values

# Gymnasium writes the largest float for "no limit".
NO_LIMIT = 1e30
# Without limits an integer is taken for a small index or, in eight bits, for a pixel.
_SPAN = {"uint8": 255}
_USUAL_SPAN = 1


@dataclass(frozen=True, slots=True, eq=False)
class Range:
    """Both ends: infinite where a float has none, of the port's own dtype for whole numbers."""

    low: Array
    high: Array
    unlimited: bool

    @classmethod
    def of(cls, port: Port) -> Range:
        whole = np.dtype(port.dtype).kind in "iu"
        low, high = _whole_ends(port) if whole else _float_ends(port)
        nothing_said = port.about.low is None and port.about.high is None
        low, high = np.broadcast_arrays(low, high)
        return cls(low, high, nothing_said)

    def holds(self, row: Array) -> bool:
        """Whether every element of the row is inside."""
        return bool(((row >= self.low) & (row <= self.high)).all())

    def ends(self, dtype: str) -> tuple[Array, Array, Array, Array]:
        """The low end, just above it, just below the high end, the high end; infinite where there
        is none."""
        low, high = self.low.astype(dtype), self.high.astype(dtype)
        above = np.where(np.isfinite(low), np.nextafter(low, high), low)
        below = np.where(np.isfinite(high), np.nextafter(high, low), high)
        return low, above, below, high

    def inside(self, values: Array, otherwise: Array) -> Array:
        """`values` where they are inside, and `otherwise` elsewhere."""
        return np.where((values >= self.low) & (values <= self.high), values, otherwise)


def _float_ends(port: Port) -> tuple[Array, Array]:
    largest = float(np.finfo(port.dtype).max)

    def end(limit: Values | None, missing: float) -> Array:
        values = np.asarray(missing if limit is None else limit, dtype=np.float64)
        # As the dtype rounds it: what a sensor sends when it is at its limit.
        kept = np.clip(values, -largest, largest).astype(port.dtype).astype(np.float64)
        return np.where(np.abs(values) >= NO_LIMIT, missing, kept)

    return end(port.about.low, -np.inf), end(port.about.high, np.inf)


def _whole_ends(port: Port) -> tuple[Array, Array]:
    span, limits = _SPAN.get(port.dtype, _USUAL_SPAN), np.iinfo(port.dtype)
    low, high = (_whole(limit) for limit in (port.about.low, port.about.high))
    if low is None:
        low = np.asarray(0 if high is None else min(0, *high.ravel().tolist()), dtype=object)
    if high is None:
        high = low + span
    # Python's own integers: the ends of 64 bits are lost in a float.
    kept = (np.clip(each, int(limits.min), int(limits.max)) for each in (low, high))
    first, last = (np.asarray(each, dtype=object).astype(port.dtype) for each in kept)
    return first, last


def _whole(limit: Values | None) -> Any:
    """The limit as Python's integers; None where there is none."""
    values: Any = np.asarray(0 if limit is None else limit, dtype=object)
    if limit is None or any(abs(each) >= NO_LIMIT for each in values.ravel().tolist()):
        return None
    return np.asarray(np.frompyfunc(int, 1, 1)(values), dtype=object)
