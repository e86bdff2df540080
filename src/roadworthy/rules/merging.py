"""Findings of several stages as one list: nothing twice, the most important first."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence

from roadworthy.errors import CertificateFailed, Finding

_LINE = re.compile(r"([^\s:]+:\d+) \(")
_MAKE_DIFFER = ("RW112",)
_RANK = {"error": 0, "warning": 1, "note": 2}


def merged(confirmed: Sequence[Finding], suspected: Iterable[Finding]) -> tuple[Finding, ...]:
    """What a run confirmed, with what reading the code adds to it.

    Of two findings about the same line or the same attribute the confirmed one stays. One that
    names no line (the outputs are random) is given the line that reading found. Where the artifact
    was seen to differ, state that forward writes is no longer a mere suspicion.
    """
    found = list(confirmed)
    differed = any(each.code == CertificateFailed.code for each in found)
    # A note on a line says nothing against it.
    about = {key for each in found if each.severity != "note" for key in subjects(each)}
    for each in suspected:
        if each in found or subjects(each) & about:
            continue
        vague = next((i for i, f in enumerate(found) if _is_vague(f) and f.code == each.code), None)
        if vague is not None:
            found[vague] = dataclasses.replace(found[vague], where=each.where)
        elif differed and each.code in _MAKE_DIFFER:
            found.append(dataclasses.replace(each, severity="error"))
        else:
            found.append(each)
        about |= subjects(each)
    return tuple(sorted(found, key=_importance))


def subjects(finding: Finding) -> set[str]:
    """What a finding is about: `file.py:12`, and `Actor.hidden`."""
    keys = set(_LINE.findall(finding.where))
    path = finding.where.partition(" at ")[0]
    if "." in path and " " not in path:
        keys.add(path.partition("[")[0])
    return keys


def _is_vague(finding: Finding) -> bool:
    return not subjects(finding) and finding.where.isidentifier()


def _importance(finding: Finding) -> tuple[int, bool]:
    """A cause comes before the comparison that it made fail."""
    return _RANK[finding.severity], finding.code == CertificateFailed.code
