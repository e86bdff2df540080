"""No false alarm: what the registry holds exports as it is, and the doctor agrees."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import roadworthy as rw
from roadworthy.capture.analysis import ModuleAnalysis
from roadworthy.capture.capture import capture
from roadworthy.capture.export_mode import export_mode
from roadworthy.rules.checks import CAPTURED, LOOKING, RUNNING, findings
from roadworthy.rules.patient import Patient
from roadworthy.verification.originals.owners import owners
from tests.policies import CASES
from tests.tiers import REPRESENTATIVES, representative

TRIED = ["normalized_by_module", "keeps_hidden", "squashed_gaussian"]


@pytest.mark.parametrize("name", representative(CASES, REPRESENTATIVES))
def test_no_check_finds_more_than_a_note_in_a_good_policy(name: str) -> None:
    """Every check alone: stricter than `diagnose`, which drops what its trial disproves."""
    source = CASES[name].make()
    patient = Patient(source.module, source.module, source, owners(source.module))
    found = findings(patient, LOOKING)
    with export_mode(source):
        found += findings(dataclasses.replace(patient, analysis=ModuleAnalysis(source)), RUNNING)
    found += findings(dataclasses.replace(patient, program=capture(source)), CAPTURED)
    assert [each for each in found if each.severity != "note"] == []
    assert {each.code for each in found} <= {"RW160", "RW165"}


@pytest.mark.parametrize("name", TRIED)
def test_a_good_policy_is_exported_on_trial_and_has_no_errors(name: str) -> None:
    diagnosis = rw.diagnose(CASES[name].make())
    assert diagnosis.exported
    assert diagnosis.ok
    assert diagnosis.findings == ()
    assert str(diagnosis).endswith(": no errors; a trial export passed")


def test_the_patient_comes_back_as_it_was() -> None:
    source = CASES["keeps_buffer"].make()
    module = source.module.train()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    state = torch.get_rng_state()
    rw.diagnose(source)
    assert module.training
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
