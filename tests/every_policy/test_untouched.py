"""The caller's module, example and random generators come back exactly as they were."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import roadworthy as rw
from tests.conftest import Verified
from tests.facts import differing, facts
from tests.policies import CASES


def test_export_and_verify_leave_everything_as_it_was(verified: Verified) -> None:
    verified.certificate.raise_if_failed()
    assert verified.exported.changed == []
    assert verified.changed == []


def test_module_that_was_used_keeps_its_hidden_state(tmp_path: Path) -> None:
    source = CASES["keeps_hidden"].make()
    source.module(torch.randn(1, 6))
    hidden = source.module.hidden
    before = hidden.tolist()
    again = rw.Source(
        source.module,
        example=source.example,
        memory={"h": rw.Attribute("hidden", initial=0.0)},
    )
    rw.export(again, tmp_path / "bundle")
    assert source.module.hidden is hidden
    assert hidden.tolist() == before


def test_refused_export_leaves_everything_as_it_was(tmp_path: Path) -> None:
    source = rw.Source(CASES["keeps_hidden"].make().module, example={"obs": torch.randn(1, 6)})
    before = facts(source)
    with pytest.raises(rw.RoadworthyError, match="hidden"):
        rw.export(source, tmp_path / "bundle")
    assert differing(before, facts(source)) == []
    assert list(tmp_path.iterdir()) == []
