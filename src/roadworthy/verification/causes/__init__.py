"""Why an artifact differs from its original: each hypothesis is tried, and the numbers decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from roadworthy.errors import Finding, RoadworthyError
from roadworthy.spec.bundle import POLICY, TRACE, Bundle
from roadworthy.spec.signature import Signature
from roadworthy.spec.trace import Trace
from roadworthy.verification.causes import inputs, memory, outputs
from roadworthy.verification.causes.evidence import (
    Evidence,
    Hypothesis,
    Steps,
    cause,
    from_trace,
    side_by_side,
)
from roadworthy.verification.certificate import Check

MOST_CAUSES = 4


def explained(
    bundle: Bundle, subject: Any, checks: Sequence[Check], seed: int
) -> tuple[Finding, ...]:
    """Remarks about what was compared, and the likely causes where a check failed."""
    remarks = getattr(subject, "remarks", None)
    said: tuple[Finding, ...] = remarks(bundle.signature) if remarks else ()
    said += tuple(_one_choice(bundle))
    if all(check.passed for check in checks):
        return said
    return (*said, *_mixed_rows(checks), *likely_causes(bundle, subject, seed))


def _one_choice(bundle: Bundle) -> Iterator[Finding]:
    """A trace in which the policy always does the same says little to a robot that replays it."""
    action = bundle.signature.action
    if action is None or action.kind == "continuous":
        return
    recorded = Trace.from_bytes(bundle.files[TRACE]).outputs.get(action.output)
    if recorded is not None and (recorded == recorded[:1, :1]).all():
        yield Finding(
            code="RW325",
            where=action.output,
            what=f"the original made the same choice in all {len(recorded)} recorded steps: a "
            "replay would not see that an input is frozen",
            hint="give the inputs the limits that they have: about={…: rw.About(low=…, high=…)}; "
            "verify(…, against=…) compares the numbers behind the choice",
            severity="warning",
        )


def _mixed_rows(checks: Sequence[Check]) -> Iterator[Finding]:
    for check in checks:
        if check.name == "batch" and check.first_failure is not None:
            later = check.first_failure.step > 0
            yield cause(
                "rows of a batch influence each other"
                + (", through what is remembered" if later else ""),
                where="batch",
                hint="are layers and rows exchanged in a state? keep (layers, batch, features)"
                if later
                else "take no statistics over the batch, and reshape no axis into it",
            )


def likely_causes(bundle: Bundle, subject: Any, seed: int) -> tuple[Finding, ...]:
    """What would explain that the bundle failed; empty where no hypothesis holds.

    `subject` is what the bundle was compared with; None leaves its trace, which says less.
    """
    try:
        evidence = from_trace(bundle) if subject is None else side_by_side(bundle, subject, seed)
    except Exception:  # the verdict stands without an explanation
        return ()
    if not evidence.differing:
        return ()
    found: list[Finding] = []
    for hypotheses in (HYPOTHESES, LAST_RESORTS):
        for hypothesis in hypotheses:
            found += [each for each in _tried(hypothesis, evidence) if each not in found]
            if len(found) >= MOST_CAUSES:
                break
        if found:
            break
    return tuple(found[:MOST_CAUSES])


def _tried(hypothesis: Hypothesis, evidence: Evidence) -> list[Finding]:
    """What the hypothesis finds; one that cannot be tried must not stand before the verdict."""
    try:
        return list(hypothesis(evidence))
    except Exception:  # users' modules raise what they like when they are run otherwise
        return []


def suspected(evidence: Evidence) -> Iterator[Finding]:
    """The first mistake that makes the original give what the artifact gave."""
    suspects = getattr(evidence.subject, "suspects", None)
    if suspects is None:
        return
    signature = evidence.bundle.signature
    for suspect in suspects(evidence.bundle.manifest.get("recipe", {})):
        if evidence.as_got(partial(_opened, suspect, signature), evidence.run):
            yield cause(suspect.what, where=suspect.where, hint=suspect.hint)
            return


def _opened(suspect: Any, signature: Signature, rows: int) -> AbstractContextManager[Steps]:
    opened: AbstractContextManager[Steps] = suspect.original(signature, rows=rows)
    return opened


def other_weights(evidence: Evidence) -> Iterator[Finding]:
    """Weights of the original that the file does not hold."""
    absent = getattr(evidence.subject, "absent_weights", None)
    if absent is None:
        return
    try:
        names, of = absent(evidence.bundle.files[POLICY])
    except RoadworthyError:
        return
    if names:
        listed = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
        yield cause(
            f"{len(names)} of the {of} weight matrices of the original are not in the file: "
            f"{listed}",
            where="weights",
            hint="another checkpoint, the critic, a target network or an average of the weights?",
        )


HYPOTHESES: tuple[Hypothesis, ...] = (
    *outputs.HYPOTHESES, *memory.HYPOTHESES, suspected, *inputs.HYPOTHESES,
)  # fmt: skip
LAST_RESORTS: tuple[Hypothesis, ...] = (other_weights, *memory.LAST_RESORTS)
