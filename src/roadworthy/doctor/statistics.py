"""Running statistics of observations, inside a policy or beside it."""

from __future__ import annotations

from collections.abc import Iterator

from roadworthy.doctor.patient import Patient
from roadworthy.originals.statistics import Statistics, below


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
