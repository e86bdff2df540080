"""Zero false alarms: every good policy verifies, alone and beside its source, without a remark."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

import roadworthy as rw
from tests.conftest import Verified
from tests.policies import CASES

# What is true of these, and no alarm: dropout and batch norm were left in training mode.
NOTED = {
    "left_in_training": ["RW160"],
    "transformer": ["RW160"],
    "transformer_any_length": ["RW160"],
}


def test_the_registry_is_large_enough() -> None:
    assert len(CASES) >= 44


def test_a_good_policy_raises_no_alarm(verified: Verified) -> None:
    certificate = verified.certificate.raise_if_failed()
    noted = NOTED.get(verified.exported.case.name, [])
    assert [each.code for each in certificate.findings] == noted
    assert all(each.severity == "note" for each in certificate.findings)


def test_a_policy_that_always_chooses_the_same_is_remarked(tmp_path: Path) -> None:
    actor = nn.Linear(4, 3)
    actor.bias.data[1] = 1e7
    rw.export(actor, tmp_path / "b", example={"input": torch.zeros(1, 4)}, action=rw.Argmax())
    (warning,) = rw.verify(tmp_path / "b").raise_if_failed().findings
    assert (warning.code, warning.where, warning.severity) == ("RW325", "actions", "warning")
    assert warning.what.startswith("the original chose the same action in all 256 recorded steps")
