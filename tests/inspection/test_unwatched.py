"""The inside of a simulator is not watched, and whoever else watches goes on doing so."""

from __future__ import annotations

import sys
from typing import Any

from roadworthy.environment.unreached import Lines, lines_noted
from roadworthy.inspection.entered import Entered
from roadworthy.inspection.unwatched import unwatched


def inner() -> str:
    return "simulated"


def around() -> str:
    return unwatched(inner)() + outer()


def outer() -> str:
    return "observed"


def test_nothing_inside_is_seen_and_everything_behind_it_is() -> None:
    lines: Lines = {}
    entered = Entered(lambda slots, names: None)
    with entered.watching(), lines_noted(lines):
        assert around() == "simulatedobserved"
    for seen in (lines, entered.codes):
        assert inner.__code__ not in seen
        assert {around.__code__, outer.__code__} <= set(seen)


def test_a_debugger_goes_on_watching() -> None:
    seen = []

    def tracer(frame: Any, event: str, arg: Any) -> None:
        seen.append(frame.f_code)

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        around()
    finally:
        sys.settrace(before)
    assert inner.__code__ in seen
