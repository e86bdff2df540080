"""What a failed certificate says, and what to do next about each check."""

from __future__ import annotations

import pytest

import roadworthy as rw
from roadworthy.spec.certificate import Certificate, Check, Difference

WRONG = Difference(
    port="actions", absolute=0.5, relative=1.0, step=3, index=(0, 1), expected=0.5, got=1.0
)
CHECKS = ("replay", "batch", "reset", "fresh steps", "logits", "free run", "teacher", "closed loop")


def failed(*names: str, findings: tuple[rw.Finding, ...] = ()) -> Certificate:
    checks = tuple(
        Check(name=name, claim="all is well", passed=False, steps=4, first_failure=WRONG)
        for name in names
    )
    return Certificate(checks=checks, seed=0, findings=findings)


@pytest.mark.parametrize("name", CHECKS)
def test_every_failed_check_says_the_place_and_a_next_step(name: str) -> None:
    (finding,) = failed(name).failures
    assert (finding.code, finding.where) == ("RW300", name)
    assert finding.what.startswith("actions[0][1] at step 3: expected 0.5, got 1 ")
    assert finding.hint
    assert "all is well" not in str(finding)


@pytest.mark.parametrize(
    ("names", "word"),
    [
        (("replay",), "provenance in manifest.json"),
        (("replay", "fresh steps"), "roadworthy inspect FOLDER --values"),
        (("batch",), "over the batch axis"),
        (("reset",), "--operators"),
        (("free run",), "as Input or Memory"),
        (("closed loop",), "margin="),
    ],
)
def test_the_next_step_is_the_one_that_helps_for_that_check(
    names: tuple[str, ...], word: str
) -> None:
    assert word in failed(*names).failures[0].hint


def test_a_named_cause_is_the_next_step() -> None:
    cause = rw.Finding(code="RW320", what="the tanh is missing", severity="note")
    begins = rw.Finding(code="RW301", what="the difference begins at 'x'", severity="note")
    (alone,) = failed("fresh steps", findings=(cause,)).failures
    (both,) = failed("fresh steps", findings=(cause, begins)).failures
    (place,) = failed("fresh steps", findings=(begins,)).failures
    first = "RW301 names the first value in the graph that differs"
    assert alone.hint == "RW320 names the likely cause"
    assert both.hint == f"RW320 names the likely cause, {first}"
    assert place.hint == f"{first}, and its line"


def test_a_check_that_compared_nothing_says_so() -> None:
    empty = Check(name="replay", claim="the artifact repeats it", passed=False, steps=0)
    (finding,) = Certificate(checks=(empty,), seed=0).failures
    assert finding.what == "no step was compared (the artifact repeats it)"
