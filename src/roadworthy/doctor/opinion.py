"""A second opinion on an export that failed: what reading the module adds to the failure."""

from __future__ import annotations

from roadworthy.capture.source import Source
from roadworthy.doctor.checks import LOOKING, findings
from roadworthy.doctor.checks.normalizers import retold
from roadworthy.doctor.merging import merged
from roadworthy.doctor.owners import owners
from roadworthy.doctor.patient import Patient
from roadworthy.errors import RoadworthyError


def second_opinion(error: RoadworthyError, source: Source) -> None:
    """The error, with everything else that is wrong with the source; notes are left out."""
    patient = Patient(source.module, source.module, source, owners(source.module))
    try:
        suspected = [each for each in findings(patient, LOOKING) if each.severity != "note"]
        told = merged(retold(patient, error.findings), retold(patient, suspected))
    except Exception:  # strange objects break what looks at them; the failure itself must get out
        return
    error.retell(told)
