"""The pictures of a flight: differences, values, times, memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from roadworthy.show.charts import Line, line_chart, thinned
from roadworthy.show.flight import (
    LATE_PERIODS,
    Excursion,
    Repeat,
    Timing,
    by_element,
)
from roadworthy.show.influence import element_name
from roadworthy.show.page import section
from roadworthy.show.pictures import (
    MOST_ELEMENTS,
    difference_figure,
    latency_figure,
    legend,
    memory_figure,
    row_of,
)
from roadworthy.spec.flight import FlightRecord
from roadworthy.spec.html import Html, tag
from roadworthy.spec.port import BATCH, Array, Port

# Points of a line: more than these are not seen.
MOST_POINTS = 700


def repeat_section(record: FlightRecord, repeat: Repeat) -> Html:
    """How far the bundle is off at each repeated step."""
    start = record.first + repeat.start
    figures = []
    for port, gap in repeat.gaps.items():
        gone = repeat.departures.get(port)
        departed = None if gone is None else record.first + gone
        figures.append(
            difference_figure(
                port, gap, repeat.allowed[port], departed, most=f"{gap.max():.2e}", first=start,
                points=MOST_POINTS,
            )
        )  # fmt: skip
    head = (
        "The recorded inputs and resets through the bundle on this machine. Wherever the flight "
        "looked at memory, the repetition goes on from what it saw."
    )
    return section("differences", "The flight once more", tag("p", head), *figures)


def values_section(
    record: FlightRecord,
    title: str,
    ports: Sequence[Port],
    arrays: Mapping[str, Array],
    left: set[tuple[str, int]],
    beyond: Sequence[Excursion],
) -> Html:
    """Values over the kept steps, element by element; those that left their range first."""
    charts = []
    gone = {(each.port, each.element): each for each in beyond}
    for port in ports:
        row = by_element(port, arrays[port.name])[:, 0]
        count = row.shape[1]
        # Those that left their range come first where there is no room for all.
        order = sorted(range(count), key=lambda each: ((port.name, each) not in left, each))
        charts += [
            _value(record, port, element, row[:, element], gone.get((port.name, element)))
            for element in sorted(order[:MOST_ELEMENTS])
        ]
        if count > MOST_ELEMENTS:
            said = f"{count - MOST_ELEMENTS} more elements of {port.name} are not drawn."
            charts.append(tag("p", said, class_="quiet"))
    words = "Row 0 over the kept steps; dotted lines are declared limits that were left."
    head = words if record.rows > 1 or beyond else "Over the kept steps."
    grid = tag("div", charts, class_="multiples")
    return section(title.lower(), title, tag("p", head), grid)


def _value(
    record: FlightRecord, port: Port, element: int, values: Array, gone: Excursion | None
) -> Html:
    drawn, every = thinned(values, MOST_POINTS)
    lines = [Line(name="value", values=drawn, kind="c0")]
    at = None
    if gone is not None:
        at = (record.first + gone.first, f"left at {record.first + gone.first}")
        for limit in (gone.low, gone.high):
            if np.isfinite(limit):
                line = np.full(len(drawn), limit)
                lines.append(Line(name="limit", values=line, kind="limit"))
    fixed = all(isinstance(dim, int) or dim == BATCH for dim in port.shape)
    name = element_name(port, element) if fixed else f"{port.name}[{element}]"
    unit = f" in {port.about.unit}" if port.about.unit else ""
    caption = tag("figcaption", tag("b", name), unit)
    if not any(np.isfinite(each.values).any() for each in lines):
        return tag("figure", caption, tag("p", "never a finite number", class_="quiet"))
    chart = line_chart(
        lines, x_label="step", first=record.first, every=every, mark=at, width=350, height=130
    )
    return tag("figure", caption, chart)


def times_section(record: FlightRecord, when: Timing) -> Html:
    """How long steps took, and the time from each to the next."""
    figures = [latency_figure("Policy.step", record.took_ns / 1000)]
    if when.intervals.size:
        between, every = thinned(np.diff(record.start_ns) / 1e6, MOST_POINTS)
        lines = [Line(name="ms", values=between, kind="c0")]
        period = record.signature.period_s
        if period:
            limit = np.full(len(between), 1000 * period * LATE_PERIODS)
            lines.append(Line(name="late", values=limit, kind="limit"))
        middle = 1000 * float(np.median(when.intervals))
        said = f" from the beginning of a step to the next, median {middle:.3g} ms"
        late = ""
        if period:
            late = f"; {len(when.late):,} late"
            if len(when.late):
                late += f", the first at {record.first + int(when.late[0])}"
        chart = line_chart(lines, x_label="step", first=record.first + 1, every=every)
        figures.append(
            tag("figure", tag("figcaption", tag("b", "Period"), said + late), legend(lines), chart)
        )
    head = "On the machine that flew, as recorded."
    return section("latency", "Time", tag("p", head), *figures)


def memory_section(record: FlightRecord) -> Html | None:
    """What was remembered whenever the flight looked."""
    if not record.signature.memory or not len(record.frames):
        return None
    figures = []
    for memory in record.signature.memory:
        flat = row_of(memory, record.memory[memory.name], 0)
        # As many looks as there are points to see.
        flat = flat[:: -(-len(flat) // MOST_POINTS)]
        figures.append(memory_figure(memory, flat, x_label="look"))
    frames = record.first + record.frames
    head = f"Row 0, looked at {len(frames):,} times, before steps {frames[0]} to {frames[-1]}."
    return section("memory", "Memory", tag("p", head), *figures)
