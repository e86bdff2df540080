"""Exports that fail in real life are refused at their line, and the advice that is given works."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import Tensor, nn
from torch.distributions import Distribution

import roadworthy as rw
from tests.capture.failures.case import OBS
from tests.capture.failures.cases import CASES
from tests.capture.failures.values import Actor


class Stateful(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs) + obs.new_tensor(obs.untyped_storage().tolist()[0])


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


def test_layers_of_pytorch_are_named_where_no_line_is_the_users(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(8, 4), nn.Sequential(nn.GELU(), nn.Linear(4, 2))).double()
    with pytest.raises(rw.RoadworthyError) as caught:
        rw.export(module, tmp_path / "bundle", example=OBS["obs"].double())
    (finding,) = caught.value.findings
    assert finding.where == "layer 1.0 (GELU)"
    assert finding.what == "onnxruntime cannot run Erf in float64"


def test_validation_of_distributions_is_set_back(tmp_path: Path) -> None:
    before = Distribution._validate_args
    rw.export(CASES["rsample"].source_after(), tmp_path / "bundle")
    assert Distribution._validate_args is before


def test_failure_that_no_rule_knows_keeps_the_words_of_torch(tmp_path: Path) -> None:
    with pytest.raises(rw.RoadworthyError) as caught:
        rw.export(Stateful(), tmp_path / "bundle", example=OBS)
    (finding,) = caught.value.findings
    assert finding.code == "RW104"
    assert finding.what.startswith("torch.export cannot capture it: ")
    assert (
        "(return self.net(obs) + obs.new_tensor(obs.untyped_storage().tolist()[0]))"
        in finding.where
    )
    assert finding.hint.startswith("write that place with torch operations on tensors")
