"""Charts as SVG: lines over steps, histograms, rows of dots.

They are drawn here and not by a script in the page, so that they print, need no library, and take
their colours from the page's theme. A class says what a line is: `original`, `artifact`, `limit`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from roadworthy.show.axes import (
    BOTTOM,
    LEFT,
    TOP,
    Frame,
    axes,
    log_range,
    px,
    value_range,
    x_axis,
)
from roadworthy.spec.html import Html, tag
from roadworthy.spec.port import Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Line:
    """Values over steps. `kind` is the class that gives it its colour."""

    name: str
    values: Array
    kind: str


def line_chart(
    lines: Sequence[Line],
    *,
    x_label: str,
    first: int = 0,
    every: int = 1,
    mark: tuple[int, str] | None = None,
    log: bool = False,
    width: int = 720,
    height: int = 200,
) -> Html:
    """Lines over steps, a point for `every` step; `mark` is a step with a word beside it."""
    finite = np.concatenate([each.values[np.isfinite(each.values)] for each in lines])
    count = max(len(each.values) for each in lines)
    frame = Frame(
        width=width,
        height=height,
        x=(first, first + every * max(count - 1, 1)),
        y=log_range(finite) if log else value_range(finite),
        log=log,
    )
    parts: list[Html] = [*axes(frame, x_label)]
    if mark is not None:
        at = frame.across(mark[0])
        parts += [
            tag("line", class_="mark", x1=px(at), x2=px(at), y1=TOP, y2=height - BOTTOM),
            _beside(at, mark[1], width),
        ]
    parts += [_path(each, frame, first, every) for each in lines]
    names = " and ".join(each.name for each in lines)
    return _svg(frame, parts, f"{names} over {x_label}", hover=True)


def thinned(values: Array, most: int) -> tuple[Array, int]:
    """At most `most` values for a picture, and how many steps each stands for.

    Of every stretch the least and the largest are kept, in their order: no peak is lost.
    """
    if len(values) <= most:
        return values, 1
    each = -(-len(values) // (most // 2))
    each += each % 2
    count = -(-len(values) // each)
    padded = np.concatenate([values, np.full(count * each - len(values), values[-1])])
    parts = np.where(np.isfinite(padded), padded, np.nan).reshape(count, each)
    blank: Array = np.all(np.isnan(parts), axis=1)
    parts = np.where(blank[:, None], 0.0, parts)
    low, high = np.nanargmin(parts, axis=1), np.nanargmax(parts, axis=1)
    places = np.sort(np.stack([low, high], axis=1), axis=1)
    kept = np.take_along_axis(parts, places, axis=1)
    kept[blank] = np.nan
    return kept.reshape(-1), each // 2


def histogram(values: Array, *, x_label: str, marks: dict[str, float], height: int = 180) -> Html:
    """How often values occur, up to the 99th percentile; marks are named places."""
    high = float(np.percentile(values, 99))
    inside = values[values <= high]
    counts, edges = np.histogram(inside, bins=min(48, max(8, len(inside) // 8)))
    frame = Frame(
        width=720,
        height=height,
        x=(float(edges[0]), float(edges[-1])),
        y=(0.0, float(counts.max()) * 1.1),
    )
    parts = [*axes(frame, x_label)]
    for count, start, stop in zip(
        counts.tolist(), edges[:-1].tolist(), edges[1:].tolist(), strict=True
    ):
        left, right, top = frame.across(start), frame.across(stop), frame.up(count)
        parts.append(
            tag(
                "rect",
                class_="bar",
                x=px(left + 0.5),
                y=px(top),
                width=px(right - left - 1),
                height=px(height - BOTTOM - top),
            )
        )
    for row, (word, place) in enumerate(marks.items()):
        if frame.x[0] <= place <= frame.x[1]:
            at = frame.across(place)
            parts += [
                tag("line", class_="mark", x1=px(at), x2=px(at), y1=TOP, y2=height - BOTTOM),
                tag("text", word, class_="marked", x=px(at + 4), y=TOP + 10 + 13 * row),
            ]
    return _svg(frame, parts, f"histogram of {x_label}")


def dots(groups: dict[str, tuple[str, Sequence[float]]], *, x_label: str) -> Html:
    """One row of dots for each group, on a common axis: group → (class, values)."""
    everything = np.asarray([value for _, values in groups.values() for value in values])
    height = TOP + 34 * len(groups) + BOTTOM
    frame = Frame(width=720, height=height, x=value_range(everything), y=(0.0, 1.0))
    parts = [*x_axis(frame, x_label)]
    for row, (name, (kind, values)) in enumerate(groups.items()):
        middle = TOP + 34 * row + 20
        parts.append(tag("text", name, class_="row", x=LEFT, y=middle - 10))
        for place, value in enumerate(values):
            # Equal values stand beside each other, not on top.
            shift = (place % 5 - 2) * 1.6
            at = frame.across(value)
            parts.append(
                tag(
                    "circle",
                    tag("title", f"episode {place}: {value:.6g}"),
                    class_=f"dot {kind}",
                    cx=px(at),
                    cy=px(middle + shift),
                    r=3.5,
                )
            )
        mean = frame.across(float(np.mean(values)))
        parts.append(
            tag(
                "line",
                class_=f"mean {kind}",
                x1=px(mean),
                x2=px(mean),
                y1=middle - 9,
                y2=middle + 9,
            )
        )
    return _svg(frame, parts, f"{x_label} of {', '.join(groups)}")


def _beside(at: float, word: str, width: int) -> Html:
    """A word right of its mark, or left of it where there is no room."""
    if at > 0.7 * width:
        return tag("text", word, class_="marked end", x=px(at - 4), y=TOP + 10)
    return tag("text", word, class_="marked", x=px(at + 4), y=TOP + 10)


def _svg(frame: Frame, parts: Sequence[Html], label: str, *, hover: bool = False) -> Html:
    limits = {
        f"data_{key}": f"{value:.9g}"
        for key, value in zip(("x0", "x1", "y0", "y1"), (*frame.x, *frame.y), strict=True)
    }
    return tag(
        "svg",
        parts,
        class_="chart hover" if hover else "chart",
        role="img",
        aria_label=label,
        viewBox=f"0 0 {frame.width} {frame.height}",
        data_log="1" if frame.log else None,
        **(limits if hover else {}),
    )


def _path(line: Line, frame: Frame, first: int, every: int) -> Html:
    """The line, interrupted where a value is not finite."""
    words, pen = [], "M"
    for step, value in enumerate(line.values.tolist()):
        if math.isfinite(value):
            words.append(f"{pen}{px(frame.across(first + every * step))} {px(frame.up(value))}")
            pen = "L"
        else:
            pen = "M"
    return tag("path", class_=f"line {line.kind}", d="".join(words), data_name=line.name)
