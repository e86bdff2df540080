"""The report of a flight: the sections of its page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from roadworthy.reporting import tables
from roadworthy.reporting.charts import Line, histogram, line_chart
from roadworthy.reporting.flight import (
    LATE_PERIODS,
    Excursion,
    Repeat,
    Timing,
    by_element,
    excursions,
    not_numbers,
    repeated,
    thinned,
    timing,
)
from roadworthy.reporting.html import Html, Part, joined, tag
from roadworthy.reporting.influence import element_name
from roadworthy.reporting.pictures import MOST_ELEMENTS, legend, memory_figure
from roadworthy.reporting.tables import mark, table
from roadworthy.runtime.load import from_bundle
from roadworthy.spec.bundle import TRACE, Bundle
from roadworthy.spec.flight import FlightRecord, refuse_other_bundle
from roadworthy.spec.port import BATCH, Array, Port
from roadworthy.spec.trace import Trace, refuse_unfit

# Points of a line: more than these are not seen.
MOST_POINTS = 700


def flight_page(
    record: FlightRecord,
    bundle: Bundle | None,
    *,
    canary: bool,
    say: Callable[[str], None],
) -> tuple[Html, list[Html | None]]:
    """The head of the page, with the verdict, and its sections."""
    repeat, trace = None, None
    if bundle is not None:
        refuse_other_bundle(record, bundle)
        trace = Trace.from_bytes(bundle.files[TRACE])
        refuse_unfit(trace, bundle.signature)
        say("repeating the flight")
        repeat = repeated(from_bundle(bundle, canary=canary), record)
    say("drawing")
    beyond = excursions(record)
    unseen = [] if trace is None else excursions(record, trace)
    when = timing(record)
    claims = list(_claims(record, bundle, repeat, beyond, unseen, when))
    left = {(each.port, each.element) for each in (*beyond, *unseen)}
    sections = [
        _checks(claims),
        _excursions(record, beyond, unseen),
        _repeat(record, repeat) if repeat else None,
        _values(record, "Inputs", record.signature.observed, record.inputs, left, beyond),
        _values(record, "Outputs", record.signature.outputs, record.outputs, set(), ()),
        _times(record, when),
        _memory(record),
        tables.ports_section(record.signature),
        _provenance(record),
    ]
    return _head(record, repeat, claims), sections


Claim = tuple[bool | None, str, str]


def _claims(
    record: FlightRecord,
    bundle: Bundle | None,
    repeat: Repeat | None,
    beyond: Sequence[Excursion],
    unseen: Sequence[Excursion],
    when: Timing,
) -> Iterator[Claim]:
    """Whether each holds, the claim, and what was found; None where it could not be tried."""
    first = record.first
    yield _repeats(record, bundle, repeat)
    bad = [
        f"{port} in {_steps(count)}, first at {first + at}"
        for port, count, at in not_numbers(record)
    ]
    yield not bad, "Every value is a number", "; ".join(bad) or "no NaN in inputs or outputs"
    abouts = [port.about for port in record.signature.observed]
    limited = any(each.low is not None or each.high is not None for each in abouts)
    yield (
        (not beyond, "Inputs stay within their declared limits", _left(beyond, first))
        if limited
        else (None, "Inputs stay within their declared limits", "the ports declare none")
    )
    if bundle is not None:
        claim = "Inputs stay within what was compared when the policy was certified"
        yield not unseen, claim, _left(unseen, first)
    period = record.signature.period_s
    if period is None:
        yield None, "Steps begin in time", "the signature says no period"
    else:
        late = len(when.late)
        said = f"{_steps(late)} began more than {LATE_PERIODS:g} periods of {period:g} s after the "
        said += f"one before; {_steps(when.slow)} took longer than a period"
        yield not late and not when.slow, "Steps begin in time", said


def _repeats(record: FlightRecord, bundle: Bundle | None, repeat: Repeat | None) -> Claim:
    claim = "The bundle repeats the recorded outputs"
    if bundle is None:
        return None, claim, "no bundle was named: --bundle FOLDER, or bundle="
    if repeat is None:
        return None, claim, "what the policy remembered at its steps is not in the record"
    gone = repeat.departures
    if gone:
        port = min(gone, key=lambda each: gone[each])
        return (
            False,
            claim,
            f"{port} is out of tolerance for the first time at step "
            + str(record.first + gone[port]),
        )
    worst = max(float(gap.max()) for gap in repeat.gaps.values())
    said = f"{_steps(repeat.steps)} repeated, at most {worst:.1e} off"
    return True, claim, said if worst else f"{_steps(repeat.steps)} repeated, to the last bit"


def _left(found: Sequence[Excursion], first: int) -> str:
    if not found:
        return "all do"
    shown = [f"{each.name} in {_steps(each.steps)}" for each in found[:3]]
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return f"{', '.join(shown)}{more}; first at {first + min(each.first for each in found)}"


def _steps(count: int) -> str:
    return f"{count:,} step" + ("" if count == 1 else "s")


def _head(record: FlightRecord, repeat: Repeat | None, claims: Sequence[Claim]) -> Html:
    word = "not compared" if repeat is None else "failed" if repeat.departures else "passed"
    kind = word if repeat is not None else ""
    seconds = float(record.start_ns[-1]) / 1e9
    said = f"{_steps(record.steps)} in {seconds:,.1f} s, recorded from {record.began}. "
    said += claims[0][2] + "."
    others = [claim for holds, claim, _ in claims[1:] if holds is False]
    wrong = f" Not so: {'; '.join(others)}." if others else ""
    return joined(
        (
            tag("strong", word, id="verdict", class_=f"verdict {kind}".strip()),
            tag("p", said + wrong),
        )
    )


def _checks(claims: Sequence[Claim]) -> Html:
    rows: list[Sequence[Part]] = [
        ("–" if holds is None else mark(holds), claim, said) for holds, claim, said in claims
    ]
    return tag(
        "section",
        tag("h2", "What the flight says"),
        table(("", "claim", "what was found"), rows, caption="Each claim, and whether it held"),
        id="checks",
    )


def _excursions(
    record: FlightRecord, beyond: Sequence[Excursion], unseen: Sequence[Excursion]
) -> Html | None:
    if not beyond and not unseen:
        return None
    columns = ("input", ">from", ">to", ">least", ">most", ">steps outside", ">first at")
    parts = [
        table(columns, [_row(each, record.first) for each in found[:100]], caption=caption)
        for found, caption in (
            (beyond, "Outside of the declared limits"),
            (unseen, "Outside of what was compared when the policy was certified"),
        )
        if found
    ]
    return tag("section", tag("h2", "Where inputs left their range"), *parts, id="excursions")


def _row(each: Excursion, first: int) -> Sequence[Part]:
    return (
        each.name, f"{each.low:.4g}", f"{each.high:.4g}", f"{each.least:.4g}", f"{each.most:.4g}",
        f"{each.steps:,}", str(first + each.first),
    )  # fmt: skip


def _repeat(record: FlightRecord, repeat: Repeat) -> Html:
    figures = []
    for port, gap in repeat.gaps.items():
        gone = repeat.departures.get(port)
        words = (
            f"out of tolerance for the first time at step {record.first + gone}"
            if gone is not None
            else f"never out of tolerance; at most {gap.max():.2e}"
            if gap.any()
            else "equal to the last bit in every step"
        )
        caption = tag("figcaption", tag("b", port), " ", words)
        if not gap.any():
            figures.append(tag("figure", caption))
            continue
        drawn, every = thinned(np.where(gap > 0, gap, np.nan), MOST_POINTS)
        limit = repeat.allowed[port]
        allowed, _ = thinned(np.where(np.isfinite(limit) & (limit > 0), limit, np.nan), MOST_POINTS)
        lines = [Line(name="off by", values=drawn, kind="artifact")]
        if np.isfinite(allowed).any():
            lines.insert(0, Line(name="allowed", values=allowed, kind="limit"))
        start = record.first + repeat.start
        at = None if gone is None else (record.first + gone, f"step {record.first + gone}")
        chart = line_chart(lines, x_label="step", first=start, every=every, log=True, mark=at)
        figures.append(tag("figure", caption, legend(lines), chart))
    head = (
        "The recorded inputs and resets through the bundle on this machine. Wherever the flight "
        "looked at memory, the repetition goes on from what it saw."
    )
    return tag(
        "section", tag("h2", "The flight once more"), tag("p", head), *figures, id="differences"
    )


def _values(
    record: FlightRecord,
    title: str,
    ports: Sequence[Port],
    arrays: Mapping[str, Array],
    left: set[tuple[str, int]],
    beyond: Sequence[Excursion],
) -> Html:
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
    return tag("section", tag("h2", title), tag("p", head), grid, id=title.lower())


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


def _times(record: FlightRecord, when: Timing) -> Html:
    taken = record.took_ns / 1000
    p50, p99, worst = (float(each) for each in np.percentile(taken, (50, 99, 100)))
    words = f"median {p50:.1f} µs, 99 % below {p99:.1f} µs, worst {worst:,.0f} µs"
    figures = [
        tag(
            "figure",
            tag("figcaption", tag("b", "Policy.step"), f" {words}"),
            histogram(taken, x_label="µs", marks={f"median {p50:.1f} µs": p50}),
        )
    ]
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
    return tag("section", tag("h2", "Time"), tag("p", head), *figures, id="latency")


def _memory(record: FlightRecord) -> Html | None:
    if not record.signature.memory or not len(record.frames):
        return None
    figures = []
    for memory in record.signature.memory:
        values = record.memory[memory.name]
        axis = memory.shape.index(BATCH) if BATCH in memory.shape else None
        row = values if axis is None else np.take(values, 0, axis=axis + 1)
        flat = row.reshape(len(row), -1).astype(np.float64)
        # As many looks as there are points to see.
        flat = flat[:: -(-len(flat) // MOST_POINTS)]
        figures.append(memory_figure(memory, flat, x_label="look"))
    frames = record.first + record.frames
    head = f"Row 0, looked at {len(frames):,} times, before steps {frames[0]} to {frames[-1]}."
    return tag("section", tag("h2", "Memory"), tag("p", head), *figures, id="memory")


def _provenance(record: FlightRecord) -> Html:
    origin = record.origin
    rows: list[Sequence[Part]] = [
        ("policy", origin.name or "unknown"),
        ("SHA-256", tag("code", origin.sha256 or "unknown")),
        ("began", record.began),
        ("steps", f"{record.first} to {record.first + record.steps - 1}"),
        ("rows", str(record.rows)),
        ("resets", f"{int(record.resets.any(axis=1).sum()):,}"),
    ]
    return tag(
        "section", tag("h2", "Provenance"), table(("", "of the flight"), rows), id="provenance"
    )
