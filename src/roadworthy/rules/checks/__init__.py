"""The checks, by what they need: the object alone, a run of it, or its captured graph."""

from __future__ import annotations

from collections.abc import Sequence

from roadworthy.errors import Finding
from roadworthy.rules.checks import code, graph, normalizers, outputs, structure
from roadworthy.rules.patient import Check, Patient

LOOKING: tuple[Check, ...] = (
    structure.lazy,
    structure.batch_norm,
    code.forward,
    normalizers.untouched,
    structure.precision,
    structure.training_mode,
    structure.wrappers,
    structure.hooks,
    structure.shared_weights,
)
RUNNING: tuple[Check, ...] = (normalizers.not_applied, outputs.unsquashed)
CAPTURED: tuple[Check, ...] = (graph.unread,)


def findings(patient: Patient, checks: Sequence[Check]) -> list[Finding]:
    """What the given checks find, in their order."""
    return [finding for check in checks for finding in _looked(check, patient)]


def _looked(check: Check, patient: Patient) -> list[Finding]:
    try:
        return list(check(patient))
    except Exception as error:  # objects of users can raise anything when they are looked at
        what = f"the check {check.__name__!r} raised {type(error).__name__}: {error}"
        where = type(patient.module).__name__
        hint = "the other checks ran; look for an attribute that raises when it is read"
        return [Finding(code="RW176", where=where, what=what, hint=hint, severity="note")]
