"""Why an artifact differs from its original: each hypothesis is tried, and the numbers decide."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

from roadworthy.errors import Finding
from roadworthy.spec.bundle import POLICY, Bundle
from roadworthy.spec.certificate import Check
from roadworthy.verification.causes import inputs, memory, outputs
from roadworthy.verification.causes.evidence import (
    Evidence,
    Hypothesis,
    NewPolicy,
    cause,
    from_trace,
    side_by_side,
)
from roadworthy.verification.causes.weights import absent_weights
from roadworthy.verification.originals.original import Original

MOST_CAUSES = 4


def remarks(bundle: Bundle, original: Original | None) -> tuple[Finding, ...]:
    """What there is to say about what was compared, whether or not it agreed."""
    said = () if original is None else original.advisories(bundle.signature)
    return (*said, *_one_choice(bundle))


def causes(
    bundle: Bundle,
    new: NewPolicy,
    original: Original | None,
    checks: Sequence[Check],
    seed: int,
) -> tuple[Finding, ...]:
    """The likely causes where a check of the target that `new` opens failed."""
    return (*_mixed_rows(checks), *likely_causes(bundle, new, original, seed))


def _one_choice(bundle: Bundle) -> Iterator[Finding]:
    """A trace in which the policy always does the same says little to a robot that replays it."""
    action = bundle.signature.action
    if action is None or action.kind == "continuous":
        return
    recorded = bundle.trace.outputs.get(action.output)
    if recorded is not None and (recorded == recorded[:1, :1]).all():
        yield Finding(
            code="RW325",
            where=action.output,
            what=f"the original chose the same action in all {len(recorded)} recorded steps: "
            "replaying them would not show that an input is frozen",
            hint="give the inputs their real limits: about={…: rw.About(low=…, high=…)}; "
            "rw.verify(…, against=module) also compares the logits",
            severity="warning",
        )


def _mixed_rows(checks: Sequence[Check]) -> Iterator[Finding]:
    for check in checks:
        first = check.first_failure
        # A number that overflows in one kernel and not in another says nothing about rows.
        finite = first is not None and math.isfinite(first.expected) and math.isfinite(first.got)
        if check.name == "batch" and first is not None and finite:
            through = first.port.startswith("memory ")
            later = through or first.step > 0
            yield cause(
                "rows of a batch influence each other" + (", through the memory" if later else ""),
                where="batch",
                hint="keep the memory as (layers, batch, features): layers and rows may be swapped"
                if later
                else "look in forward for a mean, a norm or a reshape over the batch axis",
            )


def likely_causes(
    bundle: Bundle, new: NewPolicy, original: Original | None, seed: int
) -> tuple[Finding, ...]:
    """What would explain that the bundle failed; empty where no hypothesis holds.

    Without the original its trace is left, which says less.
    """
    try:
        if original is None:
            evidence = from_trace(bundle, new)
        else:
            evidence = side_by_side(bundle, new, original, seed)
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


def made_on_purpose(evidence: Evidence) -> Iterator[Finding]:
    """The first mistake that makes the original give what the artifact gave."""
    if evidence.original is None:
        return
    signature = evidence.bundle.signature
    for mutant in evidence.original.mutants(evidence.bundle.manifest.get("recipe", {})):
        if evidence.gives_what_artifact_gave(partial(mutant.open, signature), evidence.theirs):
            yield cause(mutant.what, where=mutant.where, hint=mutant.hint)
            return


def other_weights(evidence: Evidence) -> Iterator[Finding]:
    """Weights of the original that the file does not hold."""
    weights = (
        {} if evidence.original is None else evidence.original.weights(evidence.bundle.signature)
    )
    model = evidence.bundle.files.get(POLICY)
    names = absent_weights(weights, model) if weights and model is not None else []
    if names:
        listed = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
        yield cause(
            f"{len(names)} of the {len(weights)} weight matrices of the original are not in the "
            f"file: {listed}",
            where="weights",
            hint="the file may hold another checkpoint, the critic, a target network or averaged "
            "weights: export the module again, or compare with the one that was exported",
        )


HYPOTHESES: tuple[Hypothesis, ...] = (
    *outputs.HYPOTHESES, *memory.HYPOTHESES, made_on_purpose, *inputs.HYPOTHESES,
)  # fmt: skip
LAST_RESORTS: tuple[Hypothesis, ...] = (other_weights, *memory.LAST_RESORTS)
