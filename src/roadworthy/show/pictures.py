"""The parts of a report that are pictures: differences, overlays, returns, latency, memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from roadworthy.runtime.gym.returns import Returns
from roadworthy.show.charts import Line, dots, histogram, line_chart, thinned
from roadworthy.show.heat import heat_map, image_strip
from roadworthy.show.influence import Influence, element_name
from roadworthy.show.page import section
from roadworthy.show.recording import TIMED_STEPS, Episode, Replay, chosen
from roadworthy.spec.html import Html, tag
from roadworthy.spec.port import BATCH, Array, Memory, Port
from roadworthy.spec.signature import Signature

# Of an output with more elements the first ones are drawn, of an episode its first steps.
MOST_ELEMENTS = 12
MOST_STEPS = 400
EPISODES = 3
# Memory of up to so many elements is drawn as lines, more of it as a strip of colours.
MOST_LINES = 6


def differences_section(replay: Replay) -> Html:
    """The worst difference of each output at every recorded step, beside what is allowed."""
    figures = [_difference(replay, port) for port in replay.gaps]
    return section(
        "differences",
        "Differences over the recorded steps",
        tag(
            "p",
            f"The {replay.trace.steps} recorded steps of the original, replayed now on this "
            f"machine in {replay.trace.rows} rows, {replay.trace.episodes} episodes.",
        ),
        *figures,
    )


def _difference(replay: Replay, port: str) -> Html:
    gap, allowed = replay.worst_by_step(port)
    worst = int(np.argmax(gap))
    most = f"{gap[worst]:.2e}, at step {worst}"
    return difference_figure(port, gap, allowed, replay.departures[port], most=most)


def difference_figure(
    port: str,
    gap: Array,
    allowed: Array,
    departed: int | None,
    *,
    most: str,
    first: int = 0,
    points: int = 0,
) -> Html:
    """(steps,): how far an output is off, beside what is allowed, from the step `first` on.

    `most` says how far at the worst; no more than `points` are drawn, where it is said.
    """
    words = "equal to the last bit in every step"
    if departed is not None:
        words = f"out of tolerance for the first time at step {departed}"
    elif gap.any():
        words = f"never out of tolerance; at most {most}"
    caption = tag("figcaption", tag("b", port), " ", words)
    if not gap.any():
        return tag("figure", caption)
    drawn, every = thinned(np.where(gap > 0, gap, np.nan), points or len(gap))
    limited = np.where(np.isfinite(allowed) & (allowed > 0), allowed, np.nan)
    limit, _ = thinned(limited, points or len(gap))
    lines = [Line(name="off by", values=drawn, kind="artifact")]
    if np.isfinite(limit).any():
        lines.insert(0, Line(name="allowed", values=limit, kind="limit"))
    mark = None if departed is None else (departed, f"step {departed}")
    chart = line_chart(lines, x_label="step", first=first, every=every, log=True, mark=mark)
    return tag("figure", caption, legend(lines), chart)


def overlay_section(replay: Replay, signature: Signature) -> Html:
    """Original and artifact over each other, in a few recorded episodes."""
    figures = [
        figure
        for number, episode in enumerate(chosen(replay, EPISODES))
        for figure in _overlay(replay, signature, episode, opened=number == 0)
    ]
    return section(
        "overlay",
        "Original and artifact",
        tag(
            "p",
            "The recorded original below, the artifact as dashes on top. Shown are the episode "
            "that takes most of its tolerance, and the longest of other rows.",
        ),
        *figures,
    )


def _overlay(
    replay: Replay, signature: Signature, episode: Episode, *, opened: bool
) -> Iterator[Html]:
    stop = min(episode.stop, episode.start + MOST_STEPS)
    charts, alone = [], _only_one_number(signature.outputs)
    for port in signature.outputs:
        truth, got = replay.trace.outputs[port.name], replay.outputs[port.name]
        if truth.shape[1:2] != (replay.trace.rows,):
            continue  # it has no rows, or they are not on its first axis
        steps = slice(episode.start, stop)
        one, other = (_flat(each[steps, episode.row]) for each in (truth, got))
        beyond = _flat((replay.gaps[port.name] > replay.allowed[port.name])[steps, episode.row])
        charts += [
            _pair(port, element, one, other, beyond, episode.start, alone=alone)
            for element in range(min(one.shape[1], MOST_ELEMENTS))
        ]
        left = one.shape[1] - MOST_ELEMENTS
        if left > 0:
            charts.append(
                tag("p", f"{left} more elements of {port.name} are not drawn.", class_="quiet")
            )
    if charts:
        words = f"Row {episode.row}, steps {episode.start} to {stop - 1}"
        keys = legend(
            (
                Line(name="original", values=np.empty(0), kind="original"),
                Line(name="artifact", values=np.empty(0), kind="artifact"),
            )
        )
        yield tag(
            "details",
            tag("summary", words),
            keys,
            tag("div", charts, class_="multiples alone" if alone else "multiples"),
            open="" if opened else None,
            class_="episode",
        )


def _pair(
    port: Port, element: int, one: Array, other: Array, beyond: Array, start: int, *, alone: bool
) -> Html:
    lines = [
        Line(name="original", values=one[:, element], kind="original"),
        Line(name="artifact", values=other[:, element], kind="artifact"),
    ]
    departed = int(np.argmax(beyond[:, element])) if beyond[:, element].any() else None
    mark = None if departed is None else (start + departed, f"departs at {start + departed}")
    width = 720 if alone else 350
    chart = line_chart(lines, x_label="step", first=start, mark=mark, width=width, height=130)
    unit = f" in {port.about.unit}" if port.about.unit else ""
    return tag("figure", tag("figcaption", tag("b", element_name(port, element)), unit), chart)


def _only_one_number(ports: Sequence[Port]) -> bool:
    """Whether a row of all outputs together is one number, which then has room to be drawn wide."""
    return len(ports) == 1 and all(dim in (BATCH, 1) for dim in ports[0].shape)


def _flat(values: Array) -> Array:
    """(steps, elements) as float64."""
    return values.reshape(len(values), -1).astype(np.float64)


def returns_section(
    sides: dict[str, Sequence[float]], compared: Returns | None, where: str
) -> Html:
    """The return of every episode of each side, and the paired difference where there are two."""
    kinds = ("original", "artifact")
    offset = 2 - len(sides)
    groups = {
        name: (kinds[min(place + offset, 1)], values)
        for place, (name, values) in enumerate(sides.items())
    }
    figures = [
        tag(
            "figure",
            tag("figcaption", "Return of each episode; the bar is the mean"),
            dots(groups, x_label="return"),
        )
    ]
    if len(sides) == 2:
        one, other = (np.asarray(values) for values in sides.values())
        count = min(len(one), len(other))
        paired = (other[:count] - one[:count]).tolist()
        names = list(sides)
        figures.append(
            tag(
                "figure",
                tag("figcaption", f"{names[1]} − {names[0]}, episode by episode"),
                dots({"difference": ("artifact", paired)}, x_label="difference of returns"),
            )
        )
    said = tag("p", str(compared)) if compared else None
    return section("returns", f"Returns in {where}", said, *figures)


def latency_section(times: dict[str, Array]) -> Html:
    """How long a step takes on the machine that wrote the report."""
    head = f"{TIMED_STEPS:,} steps of one row, one thread, timed while this report was written."
    figures = [latency_figure(name, taken) for name, taken in times.items()]
    return section("latency", "Latency", tag("p", head), *figures)


def latency_figure(name: str, taken_us: Array) -> Html:
    """How often a step took how long."""
    p50, p99, worst = (float(each) for each in np.percentile(taken_us, (50, 99, 100)))
    words = f" median {p50:.1f} µs, 99 % below {p99:.1f} µs, worst {worst:,.0f} µs"
    chart = histogram(taken_us, x_label="µs", marks={f"median {p50:.1f} µs": p50})
    return tag("figure", tag("figcaption", tag("b", name), words), chart)


def memory_section(replay: Replay, memories: Sequence[Memory]) -> Html | None:
    """What is remembered over the longest shown episode."""
    episodes = chosen(replay, EPISODES)
    if not memories or not episodes:
        return None
    episode = max(episodes, key=lambda each: each.stop - each.start)
    stop = min(episode.stop, episode.start + MOST_STEPS)
    figures = []
    for memory in memories:
        flat = row_of(memory, replay.memory[memory.name][episode.start : stop], episode.row)
        figures.append(memory_figure(memory, flat, x_label="step", first=episode.start))
    shown = f"Row {episode.row}, steps {episode.start} to {stop - 1}"
    head = f"{shown}; one line of a strip is one element."
    return section("memory", "Memory", tag("p", head), *figures)


def row_of(memory: Memory, values: Array, row: int) -> Array:
    """(steps, elements): what one row remembered."""
    axis = memory.shape.index(BATCH) if BATCH in memory.shape else None
    return _flat(values if axis is None else np.take(values, row, axis=axis + 1))


def memory_figure(memory: Memory, flat: Array, *, x_label: str, first: int = 0) -> Html:
    """(steps, elements) of a memory: lines where they are few, else a strip of colours."""
    caption = tag("figcaption", tag("b", memory.name), f" {memory}")
    if flat.shape[1] <= MOST_LINES and np.isfinite(flat).any():
        lines = [
            Line(name=f"[{place}]", values=flat[:, place], kind=f"c{place}")
            for place in range(flat.shape[1])
        ]
        chart = line_chart(lines, x_label=x_label, first=first, height=150)
        return tag("figure", caption, legend(lines), chart)
    scale = tag("span", f"{flat.min():.3g} dark, {flat.max():.3g} bright", class_="quiet")
    return tag("figure", caption, image_strip(flat.T), scale)


def influence_section(found: Influence) -> Html:
    """The heat map of what moves what."""
    head = (
        "How far an output moves, in units of its own spread, when one input element moves by its "
        "spread in the recorded steps: finite differences of the artifact, from a fresh memory."
    )
    keys = tag(
        "p",
        tag("span", class_="key less"),
        "moves it down ",
        tag("span", class_="key more"),
        "moves it up",
        class_="legend",
    )
    picture = heat_map(found.values, found.rows, found.columns)
    return section(
        "influence",
        "What moves what",
        tag("p", head),
        keys,
        tag(
            "figure",
            picture,
            class_="wide",
            tabindex=0,
            role="region",
            aria_label="heat map of influence",
        ),
    )


def legend(lines: Sequence[Line]) -> Html:
    """What each line is."""
    keys = [
        part for line in lines for part in (tag("span", class_=f"key {line.kind}"), f"{line.name} ")
    ]
    return tag("p", keys, class_="legend")
