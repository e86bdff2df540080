"""The report of a flight: the sections of its page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from roadworthy.runtime.load import engine_of
from roadworthy.runtime.policy import Policy
from roadworthy.show import flight_pictures as pictures
from roadworthy.show import tables
from roadworthy.show.flight import (
    LATE_PERIODS,
    Excursion,
    Repeat,
    Timing,
    excursions,
    not_numbers,
    repeated,
    timing,
)
from roadworthy.show.page import section
from roadworthy.show.tables import mark, table
from roadworthy.spec.bundle import Bundle
from roadworthy.spec.flight import FlightRecord, refuse_other_bundle
from roadworthy.spec.html import Html, Part, joined, tag
from roadworthy.spec.trace import refuse_unfit


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
        trace = bundle.trace
        refuse_unfit(trace, bundle.signature)
        say("repeating the flight")
        # Unlike a loaded policy this one says nothing of NaN: the page does.
        policy = Policy(bundle.signature, engine_of(bundle, canary=canary))
        repeat = repeated(policy, record)
    say("drawing")
    beyond = excursions(record)
    unseen = [] if trace is None else excursions(record, trace)
    when = timing(record)
    claims = list(_claims(record, bundle, repeat, beyond, unseen, when))
    left = {(each.port, each.element) for each in (*beyond, *unseen)}
    sections = [
        _checks(claims),
        _excursions(record, beyond, unseen),
        pictures.repeat_section(record, repeat) if repeat else None,
        pictures.values_section(
            record, "Inputs", record.signature.observed, record.inputs, left, beyond
        ),
        pictures.values_section(
            record, "Outputs", record.signature.outputs, record.outputs, set(), ()
        ),
        pictures.times_section(record, when),
        pictures.memory_section(record),
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
    others = [claim for holds, claim, _ in claims[1:] if holds is False]
    # Green is for a flight in which nothing was wrong; one that is repeated may still be a bad one.
    word = "not compared" if repeat is None else "look closer" if others else "passed"
    word = "failed" if repeat is not None and repeat.departures else word
    seconds = float(record.start_ns[-1]) / 1e9
    said = f"{_steps(record.steps)} in {seconds:,.1f} s, recorded from {record.began}. "
    said += claims[0][2] + "."
    wrong = f" Not so: {'; '.join(others)}." if others else ""
    return joined(
        (
            tag("strong", word, id="verdict", class_=f"verdict {word}"),
            tag("p", said + wrong),
        )
    )


def _checks(claims: Sequence[Claim]) -> Html:
    rows: list[Sequence[Part]] = [
        ("–" if holds is None else mark(holds), claim, said) for holds, claim, said in claims
    ]
    return section(
        "checks",
        "What the flight says",
        table(("", "claim", "what was found"), rows, caption="Each claim, and whether it held"),
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
    return section("excursions", "Where inputs left their range", *parts)


def _row(each: Excursion, first: int) -> Sequence[Part]:
    return (
        each.name, f"{each.low:.4g}", f"{each.high:.4g}", f"{each.least:.4g}", f"{each.most:.4g}",
        f"{each.steps:,}", str(first + each.first),
    )  # fmt: skip


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
    return section("provenance", "Provenance", table(("", "of the flight"), rows))
