"""What an export or a comparison says about a mistake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import roadworthy as rw

Findings = tuple[rw.Finding, ...]
Refused = Callable[[rw.Source], Findings]
Judged = Callable[[rw.Source, rw.Source], Findings]


@pytest.fixture
def refused(tmp_path: Path) -> Refused:
    """The findings of an export that must be refused, and leave nothing behind."""

    def findings(source: rw.Source) -> Findings:
        with pytest.raises(rw.RoadworthyError) as caught:
            rw.export(source, tmp_path / "bundle")
        assert list(tmp_path.iterdir()) == []
        return caught.value.findings

    return findings


@pytest.fixture
def judged(tmp_path: Path) -> Judged:
    """What `verify` says about the bundle of `wrong` beside the original `right`.

    Both were made without this library's certificate: other tools have none.
    """

    def findings(wrong: rw.Source, right: rw.Source) -> Findings:
        options = rw.ExportOptions(allow_uncertified=True)
        rw.export(wrong, tmp_path / "wrong", options=options)
        with pytest.raises(rw.RoadworthyError) as caught:
            rw.verify(tmp_path / "wrong", against=right).raise_if_failed()
        return caught.value.findings

    return findings
