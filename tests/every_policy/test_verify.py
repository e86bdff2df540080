"""`verify` beside a module that is not the one that was exported says so, in its own words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import nn

import roadworthy as rw
from tests.conftest import Exported
from tests.policies import CASES

ExportOnce = Callable[[str], Exported]


def verdict(folder: Path, against: Any) -> str:
    with pytest.raises(rw.RoadworthyError) as caught:
        rw.verify(folder, against=against).raise_if_failed()
    return str(caught.value)


def test_module_of_another_width_is_refused(export_once: ExportOnce) -> None:
    text = verdict(export_once("mlp").folder, nn.Linear(5, 3))
    assert text.startswith("[RW102] Linear: forward raised RuntimeError: mat1 and mat2 shapes")


def test_module_with_another_number_of_actions_fails(export_once: ExportOnce) -> None:
    text = verdict(export_once("mlp").folder, nn.Linear(6, 2))
    assert text.startswith("[RW300] fresh steps: actions.shape[1] at step 0: expected 2, got 3")


def test_module_without_the_memory_is_refused(export_once: ExportOnce) -> None:
    text = verdict(export_once("lstm").folder, CASES["mlp"].make().module)
    assert text.startswith("[RW001] Mlp: memory 'h' is not an argument of forward(obs)")


@pytest.mark.parametrize(("name", "other"), [("dict_outputs", "mlp"), ("mlp", "dict_outputs")])
def test_module_with_other_outputs_is_refused(
    export_once: ExportOnce, name: str, other: str
) -> None:
    text = verdict(export_once(name).folder, CASES[other].make().module)
    assert "'targets'" in text or "'actions'" in text


def test_what_is_no_module_is_refused(export_once: ExportOnce) -> None:
    assert verdict(export_once("mlp").folder, 3).startswith(
        "[RW001] expected a torch.nn.Module, got int"
    )
    assert verdict(export_once("mlp").folder, "actor").startswith("[RW001] actor does not exist")


def test_seed_changes_what_is_drawn_and_is_recorded(export_once: ExportOnce) -> None:
    folder = export_once("lstm").folder
    one, other = rw.verify(folder, seed=1), rw.verify(folder, seed=2)
    assert (one.seed, other.seed) == (1, 2)
    assert one.passed
    assert other.passed
    assert one.checks[1].differences != other.checks[1].differences


def test_the_recorded_seed_makes_the_same_certificate_again(export_once: ExportOnce) -> None:
    exported = export_once("lstm")
    written = rw.Certificate.from_bytes(exported.bundle.files["certificate.json"])
    assert rw.verify(exported.folder, against=exported.source, seed=written.seed) == written


def test_certificate_survives_json(exported: Exported) -> None:
    certificate = rw.Certificate.from_bytes(exported.bundle.files["certificate.json"])
    assert rw.Certificate.from_json(certificate.to_json()) == certificate
    assert str(certificate).startswith(f"certificate passed: {certificate.steps} steps in ")


def test_failed_certificate_survives_json_with_its_first_failure(export_once: ExportOnce) -> None:
    failed = rw.verify(export_once("mlp").folder, against=nn.Linear(6, 2))
    again = rw.Certificate.from_json(failed.to_json())
    assert again == failed
    assert not again.passed
    assert "FAILED" in str(again)


def test_progress_names_every_stage(export_once: ExportOnce) -> None:
    said: list[str] = []
    exported = export_once("lstm")
    rw.verify(exported.folder, against=exported.case.make().module, progress=said.append)
    assert said == [
        "replaying the trace", "comparing batches", "comparing resets",
        "stepping beside the live module", "looking at what each port is for",
    ]  # fmt: skip
