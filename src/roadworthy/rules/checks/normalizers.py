"""Normalisers that the policy does not apply, or that never saw an observation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from roadworthy.errors import Finding, Severity
from roadworthy.rules.patient import Patient
from roadworthy.rules.reading import mentioned
from roadworthy.rules.running import differs, outputs
from roadworthy.verification.originals.statistics import Numbers, Statistics, below, passed


def statistics(patient: Patient) -> list[Statistics]:
    """Every pair that looks like the statistics of observations, in the patient and around it."""
    found: dict[int, Statistics] = {}
    roots = [(patient.name, patient.module, True), *_around(patient)]
    if patient.source is not None and patient.source.normalizer is not None:
        given = patient.source.normalizers()
        roots += [(f"normalizer {n!r}", each, False) for n, each in given.items()]
    for where, root, inside in roots:
        for each in below(where, root, inside=inside):
            found.setdefault(id(each.mean), each)
    return list(found.values())


def _around(patient: Patient) -> Iterator[tuple[str, object, bool]]:
    """What holds the module: the runner that was passed, an actor-critic around its actor."""
    seen = {id(patient.module)}
    for owner in (patient.subject, *patient.owners):
        if id(owner) not in seen:
            seen.add(id(owner))
            yield type(owner).__name__, owner, False


def untouched(patient: Patient) -> Iterator[Finding]:
    """Statistics that are still where they started."""
    for each in statistics(patient):
        if each.untouched:
            yield Finding(
                code="RW163",
                where=each.where,
                what="its statistics were never updated: "
                f"{each.mean_name} 0, {each.spread_name} {_first(each.spread):g}",
                hint="load the trained normaliser together with the weights",
                severity="warning",
            )


def not_applied(patient: Patient) -> Iterator[Finding]:
    """Statistics that the outputs do not depend on, while no normaliser was passed."""
    if patient.source is not None and patient.source.normalizer is not None:
        return
    for each in statistics(patient):
        if not each.untouched and not _read(patient, each):
            yield Finding(
                code="RW162",
                where=each.where,
                what="holds observation statistics, and the outputs do not depend on them",
                hint=f"pass normalizer={passed(each)}, or normalizer=torch.nn.Identity() "
                "if the policy was trained without it",
            )


def _read(patient: Patient, each: Statistics) -> bool:
    """Whether other statistics would give other outputs; the code decides where nothing runs."""
    if patient.analysis is None:
        return each.inside and _mentioned(patient, each)
    before = outputs(patient.analysis)
    kept = _copy(each.mean), _copy(each.spread)
    try:
        _write(each.mean, kept[0] + 1.7)
        _write(each.spread, kept[1] * 3.0)
        return differs(before, outputs(patient.analysis))
    finally:
        _write(each.mean, kept[0])
        _write(each.spread, kept[1])


def _mentioned(patient: Patient, each: Statistics) -> bool:
    """Whether forward of what holds the statistics says their name, or is a library's own."""
    path, _, name = each.where.partition(".")[2].rpartition(".")
    holder = patient.module.get_submodule(path)
    users = any(module is holder for _, module in patient.written_by_users())
    return not users or (name or each.mean_name) in set(
        mentioned(holder, ("forward",) if path else patient.begun)
    )


def _first(numbers: Numbers) -> float:
    return float(numbers.reshape(-1)[0])


def _copy(numbers: Numbers) -> Numbers:
    return numbers.detach().clone() if isinstance(numbers, torch.Tensor) else numbers.copy()


def _write(numbers: Numbers, values: Numbers) -> None:
    if isinstance(numbers, torch.Tensor):
        with torch.no_grad():
            numbers.copy_(torch.as_tensor(values))
    else:
        numbers[...] = values


def relabel_learning(patient: Patient, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Findings of hidden state that is a normaliser's, told as what they are: it still learns."""
    if all(finding.code != "RW112" for finding in findings):
        return tuple(findings)
    places = {each.where for each in statistics(patient)}
    told: dict[Finding, None] = {}
    for finding in findings:
        holder = finding.where.partition(" at ")[0].rpartition(".")[0]
        learns = finding.code == "RW112" and holder in places
        told[_learning(holder, finding.severity) if learns else finding] = None
    return tuple(told)


def _learning(where: str, severity: Severity) -> Finding:
    return Finding(
        code="RW164",
        where=where,
        what="its statistics still change at every call, in evaluation mode too",
        hint="update them only `if self.training:`, or pass frozen statistics: "
        "normalizer=rw.EpsInsideRoot(mean=…, var=…, eps=…)",
        severity=severity,
    )
