"""Where a value lands on a picture, and the ticks that say so."""

from __future__ import annotations

import math
from dataclasses import dataclass

from roadworthy.spec.html import Html, tag
from roadworthy.spec.port import Array

LEFT, RIGHT, TOP, BOTTOM = 56, 10, 10, 30
# What a logarithmic axis shows instead of nothing at all.
_LEAST = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Where a value lands on the picture."""

    width: int
    height: int
    x: tuple[float, float]
    y: tuple[float, float]
    log: bool = False

    def across(self, value: float) -> float:
        low, high = self.x
        inside = self.width - LEFT - RIGHT
        return LEFT + inside * (value - low) / ((high - low) or 1.0)

    def up(self, value: float) -> float:
        low, high = self.y
        if self.log:
            low, high, value = math.log10(low), math.log10(high), math.log10(max(value, low))
        inside = self.height - TOP - BOTTOM
        part = (value - low) / ((high - low) or 1.0)
        return TOP + inside * (1 - min(max(part, -0.02), 1.02))


def axes(frame: Frame, x_label: str) -> list[Html]:
    parts = [*x_axis(frame, x_label)]
    for value in _log_ticks(*frame.y) if frame.log else _ticks(*frame.y, 4):
        y = frame.up(value)
        parts += [
            tag("line", class_="grid", x1=LEFT, x2=frame.width - RIGHT, y1=px(y), y2=px(y)),
            tag("text", _tick(value), class_="tick end", x=LEFT - 6, y=px(y + 3.5)),
        ]
    return parts


def x_axis(frame: Frame, x_label: str) -> list[Html]:
    base = frame.height - BOTTOM
    parts = [tag("line", class_="axis", x1=LEFT, x2=frame.width - RIGHT, y1=base, y2=base)]
    for value in _ticks(*frame.x, 6 if frame.width > 400 else 3):
        x = px(frame.across(value))
        parts.append(tag("text", _tick(value), class_="tick middle", x=x, y=base + 14))
    parts.append(tag("text", x_label, class_="label end", x=frame.width - RIGHT, y=base + 26))
    return parts


def value_range(values: Array) -> tuple[float, float]:
    """The limits of an axis that holds all values, with some room."""
    if not values.size:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    room = 0.06 * (high - low) or 0.5 * max(abs(high), 1.0)
    return low - room, high + room


def log_range(values: Array) -> tuple[float, float]:
    above = values[values > _LEAST]
    if not above.size:
        return _LEAST, 1.0
    low, high = float(above.min()), float(above.max())
    return 10.0 ** math.floor(math.log10(low) - 0.3), 10.0 ** math.ceil(math.log10(high) + 0.1)


def _log_ticks(low: float, high: float) -> list[float]:
    powers = range(round(math.log10(low)), round(math.log10(high)) + 1)
    return [10.0**power for power in powers[:: max(1, len(powers) // 4)]]


def _ticks(low: float, high: float, count: int) -> list[float]:
    """Round numbers between the limits."""
    span = (high - low) / count or 1.0
    unit = 10.0 ** math.floor(math.log10(span))
    step = next(unit * each for each in (1, 2, 5, 10) if unit * each >= span)
    start = math.ceil(low / step)
    places = range(start, start + count + 2)
    return [round(place * step, 12) for place in places if place * step <= high + 1e-12]


def _tick(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def px(value: float) -> str:
    """A coordinate, no longer than an eye can see."""
    return f"{value:.1f}".removesuffix(".0")
