"""`diagnose`: everything that stands between a policy and its export, without exporting it."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from roadworthy.api.export import captured, export
from roadworthy.api.options import ExportOptions, ExportPlan, options_in, with_keywords_of
from roadworthy.api.publish import write_bundle
from roadworthy.api.to_source import KEYWORDS, to_source
from roadworthy.capture.analysis import ModuleAnalysis
from roadworthy.capture.export_mode import analysis_mode
from roadworthy.capture.program import Program
from roadworthy.capture.source import Source
from roadworthy.environment.source import EnvironmentSource
from roadworthy.errors import Finding, RoadworthyError
from roadworthy.errors.unforeseen import answers, unforeseen
from roadworthy.frameworks import adapter_for
from roadworthy.rules.checks import CAPTURED, LOOKING, RUNNING, findings
from roadworthy.rules.checks.normalizers import not_applied, relabel_learning
from roadworthy.rules.guessing import example_lacking
from roadworthy.rules.merging import merged
from roadworthy.rules.patient import Patient, network
from roadworthy.verification.originals.owners import owners

if TYPE_CHECKING:
    from roadworthy.frameworks import Described

_TITLES = {"error": "errors:", "warning": "warnings:", "note": "notes (handled for you):"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What was found, the most important first; printed, it fits on a screen.

    An error means that the export is refused, or would be wrong; a warning, that it is likely wrong
    and a person must look; a note, that something was handled for you.

    subject   the class that was looked at, or the name of the file
    exported  whether a trial export passed
    """

    subject: str
    findings: tuple[Finding, ...]
    exported: bool

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that stand in the way of an export."""
        return tuple(each for each in self.findings if each.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings that a person must judge."""
        return tuple(each for each in self.findings if each.severity == "warning")

    @property
    def ok(self) -> bool:
        """Whether no error was found; warnings are for a person to judge."""
        return not self.errors

    def __str__(self) -> str:
        lines = [f"{self.subject}: {self.verdict}"]
        for title, chosen in self.grouped():
            lines += ["", title, *(str(each) for each in chosen)]
        return "\n".join(lines)

    def grouped(self) -> Iterator[tuple[str, tuple[Finding, ...]]]:
        """A title, and the findings below it."""
        for severity, title in _TITLES.items():
            chosen = tuple(each for each in self.findings if each.severity == severity)
            if chosen:
                yield title, chosen

    @property
    def verdict(self) -> str:
        """The outcome in a few words."""
        if self.errors:
            return f"not ready, {len(self.errors)} to correct"
        trial = "a trial export passed" if self.exported else "nothing was run"
        return f"no errors; {trial}"


@answers
@with_keywords_of(export, KEYWORDS)
def diagnose(
    source: Any,
    *,
    fix: bool = False,
    options: ExportOptions | None = None,
    **framework: Any,
) -> Diagnosis:
    """What an export of `source` would meet, all of it at once; takes what `export` takes.

    The code is read, the policy is run, and an export is tried in a temporary folder. Bad
    policies raise nothing here. Without an example only the code is read.
    """
    plan, keywords = ExportPlan(**options_in(options), fix=fix), framework
    subject = source.module if isinstance(source, Source) else source
    module = network(subject)
    said = [name for name, value in keywords.items() if value is not None]
    framework_object = not isinstance(subject, nn.Module) and adapter_for(source, said) is not None
    if module is None or framework_object:
        return _diagnosed_without_module(source, keywords, plan)
    patient = Patient(subject, module, owners=owners(module))
    unclear = (
        keywords.get("example") is None
        and not isinstance(source, Source)
        and adapter_for(module) is None
    )
    if unclear:
        seen = findings(patient, (*LOOKING, not_applied, example_lacking))
        return _diagnosis(subject, merged((), relabel_learning(patient, seen)), exported=False)
    try:
        made = to_source(source if isinstance(source, Source) else module, **keywords)
    except RoadworthyError as error:
        found = merged(error.findings, findings(patient, LOOKING))
        return _diagnosis(subject, found, exported=False)
    assert isinstance(made, Source)  # a module never becomes an environment
    return _diagnosed(dataclasses.replace(patient, source=made), made, plan)


def _diagnosed(patient: Patient, source: Source, plan: ExportPlan) -> Diagnosis:
    """What reading, running and a trial export of a described module show."""
    subject = patient.subject
    suspected = relabel_learning(patient, findings(patient, LOOKING))
    ran = _ran(patient, source)
    failure, shown = _tried(patient, source, plan)
    if failure is None:
        return _diagnosis(subject, merged([*ran, *shown], _not_disproved(suspected)), exported=True)
    confirmed = [*relabel_learning(patient, failure), *ran, *shown]
    return _diagnosis(subject, merged(confirmed, suspected), exported=False)


def _diagnosed_without_module(
    source: Any, keywords: Mapping[str, Any], plan: ExportPlan
) -> Diagnosis:
    """What a trial export shows of a thing that is no module: an environment, a checkpoint."""
    known = isinstance(source, (EnvironmentSource, str, Path)) or adapter_for(source) is not None
    if not known:
        what = f"expected a torch.nn.Module, got {type(source).__name__}"
        hint = "pass the module that acts, such as runner.alg.policy"
        return _diagnosis(source, [Finding(code="RW001", what=what, hint=hint)], exported=False)
    try:
        described = to_source(source, **keywords)
    except RoadworthyError as error:
        return _diagnosis(source, error.findings, exported=False)
    if isinstance(described, Source):
        module = described.module
        found = _diagnosed(Patient(module, module, described), described, plan)
        return dataclasses.replace(found, subject=_title(source))
    failure = _trial(described, plan)
    return _diagnosis(described.env, failure or (), exported=failure is None)


def _not_disproved(suspected: Sequence[Finding]) -> Iterator[Finding]:
    """What is left of a suspicion after a trial that followed the original step by step.

    A value that leaves the graph would have stopped the capture, and so would state that a later
    call reads.
    """
    for finding in suspected:
        if finding.code not in ("RW103", "RW111", "RW112", "RW173", "RW174"):
            yield finding


def _diagnosis(subject: object, found: Sequence[Finding], *, exported: bool) -> Diagnosis:
    return Diagnosis(subject=_title(subject), findings=tuple(found), exported=exported)


def _title(subject: object) -> str:
    """The class of what was looked at, or the name of the file."""
    if isinstance(subject, (str, Path)):
        return Path(subject).name
    return type(subject).__name__


def _ran(patient: Patient, source: Source) -> list[Finding]:
    """What running the policy shows; nothing where it does not run, which the trial will say."""
    try:
        with analysis_mode(source):
            analysis = ModuleAnalysis(source)
            return findings(dataclasses.replace(patient, analysis=analysis), RUNNING)
    except Exception:  # whatever it was, the trial meets it too
        return findings(patient, (not_applied,))


def _tried(
    patient: Patient, source: Source, plan: ExportPlan
) -> tuple[Sequence[Finding] | None, list[Finding]]:
    """Why a trial export failed, or None; and what its graph shows."""
    shown: list[Finding] = []

    def look(program: Program) -> None:
        shown.extend(program.fixes)
        shown.extend(findings(dataclasses.replace(patient, program=program), CAPTURED))

    return _trial(source, plan, look), shown


def _trial(
    source: Described, plan: ExportPlan, look: Callable[[Program], None] = lambda program: None
) -> Sequence[Finding] | None:
    """Why an export in a temporary folder failed, or None; `look` sees the captured program."""
    try:
        program, original = captured(source, plan)
        look(program)
        with tempfile.TemporaryDirectory() as folder:
            write_bundle(program, original, Path(folder) / "trial", plan)
    except RoadworthyError as error:
        return error.findings
    except Exception as error:  # what an object of a user's can do, it will do
        return unforeseen(error).findings
    return None
