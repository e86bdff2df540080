"""Exports that fail in real life are refused at their line, and the advice that is given works."""

from __future__ import annotations

from pathlib import Path

import pytest

import roadworthy as rw
from tests.failing.cases import CASES


@pytest.mark.parametrize("name", CASES)
def test_failure_is_explained_at_its_line(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    with pytest.raises(rw.RoadworthyError) as caught:
        rw.export(case.source_before(), tmp_path / "bundle")
    (finding,) = caught.value.findings
    assert finding == rw.Finding(code=case.code, what=case.what, where=case.where, hint=case.hint)
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize("name", CASES)
def test_the_advice_leads_to_a_certificate(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    bundle = rw.export(case.source_after(), tmp_path / "bundle", **case.options)
    assert rw.Certificate.from_bytes(bundle.files["certificate.json"]).passed
