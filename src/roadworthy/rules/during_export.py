"""What the doctor says during an export: a question before it, and more findings if it fails."""

from __future__ import annotations

import dataclasses

from roadworthy.capture.analysis import ModuleAnalysis
from roadworthy.capture.export_mode import analysis_mode
from roadworthy.capture.source import Source
from roadworthy.errors import ExportError, RoadworthyError
from roadworthy.rules.checks import LOOKING, findings
from roadworthy.rules.checks.normalizers import not_applied, relabel_learning
from roadworthy.rules.fixes.settled import with_offered_repair
from roadworthy.rules.merging import merged
from roadworthy.rules.patient import Patient
from roadworthy.verification.originals.owners import owners


def refuse_forgotten_normalizer(source: Source) -> None:
    """An error if the module holds statistics of observations that its outputs do not depend on.

    Such an artifact would pass every comparison: it does what the module does.
    """
    patient = Patient(source.module, source.module, source)
    if not findings(patient, (not_applied,)):  # reads only: a good policy is not run for this
        return
    try:
        with analysis_mode(source):
            found = list(not_applied(dataclasses.replace(patient, analysis=ModuleAnalysis(source))))
    except RoadworthyError:
        return  # the capture meets it too
    if found:
        raise ExportError(findings=found)


def add_static_findings(error: RoadworthyError, source: Source) -> None:
    """Changes the error: it now says everything that is wrong with the source, notes left out."""
    patient = Patient(source.module, source.module, source, owners(source.module))
    try:
        suspected = [each for each in findings(patient, LOOKING) if each.severity != "note"]
        told = merged(
            relabel_learning(patient, error.findings), relabel_learning(patient, suspected)
        )
    except Exception:  # strange objects break what looks at them; the failure itself must get out
        return
    error.replace_findings([with_offered_repair(source, each) for each in told])
