"""A target that shows no logits is asked where its choices turn."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import nn

import roadworthy as rw


def chooser(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 5))


def exported(module: nn.Module, folder: Path) -> Path:
    example = {"input": torch.zeros(1, 6)}
    rw.export(module, folder, example=example, action=rw.Argmax(), targets=["torch_export"])
    return folder


def moved(module: nn.Module, share: float) -> nn.Module:
    """The module with one weight of its last layer moved by a share of a typical weight."""
    other = copy.deepcopy(module)
    weight = list(other.parameters())[-2]
    with torch.no_grad():
        weight[2, 7] += share * weight.abs().median()
    return other


@pytest.mark.parametrize("seed", range(3))
def test_a_weight_that_turns_no_ordinary_choice_is_seen(tmp_path: Path, seed: int) -> None:
    module = chooser(seed)
    folder = exported(module, tmp_path / "b")
    source = rw.to_source(
        moved(module, 1e-3), example={"input": torch.zeros(1, 6)}, action=rw.Argmax()
    )
    certificate = rw.verify(folder, against=source, trust=True)
    failed = [check.name for check in certificate.checks if not check.passed]
    assert failed[-1:] == ["choices"]


def test_the_right_one_passes_beside_its_ties(tmp_path: Path) -> None:
    module = chooser()
    certificate = rw.Certificate.from_bytes(
        (exported(module, tmp_path / "b") / "certificate.json").read_bytes()
    )
    (check,) = [each for each in certificate.checks if each.name == "choices"]
    assert check.passed
    assert check.facts["states"] > 900
    assert "beside their ties" in check.claim


def test_a_failure_has_causes_and_ports_without_the_onnx_target(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
    example = {"input": torch.zeros(1, 6)}
    rw.export(module, tmp_path / "b", example=example, targets=["torch_export"])
    scaled = rw.to_source(module, example=example, action=rw.ScaleOffset(scale=2.0))
    certificate = rw.verify(tmp_path / "b", against=scaled, trust=True)
    assert not certificate.passed
    likely = [each.what for each in certificate.findings if each.code == "RW320"]
    assert likely == [
        "artifact = 0.5 · original",
        "the artifact lacks the action step ScaleOffset",
    ]


class Frames(nn.Module):
    """A DQN on frames that chooses inside of `forward`: large rows, of which few are measured."""

    def __init__(self, size: int = 36) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(
            nn.Conv2d(4, 8, 8, 4), nn.ReLU(), nn.Conv2d(8, 16, 4, 2), nn.ReLU(), nn.Flatten()
        )
        self.head = nn.Linear(self.body(torch.zeros(1, 4, size, size)).shape[1], 5)
        self.frames = torch.zeros(1, 4, size, size)

    def forward(self, frame: torch.Tensor) -> torch.Tensor:
        self.frames = torch.cat([self.frames[:, 1:], frame], 1)
        values: torch.Tensor = self.head(self.body(self.frames / 255.0))
        return values.argmax(-1)


@pytest.mark.slow
def test_a_choice_that_is_measured_at_few_states_is_certified(tmp_path: Path) -> None:
    bundle = rw.export(
        Frames(),
        tmp_path / "b",
        example={"frame": torch.zeros(1, 1, 36, 36)},
        memory={"frames": "frames"},
        targets=["onnx", "c"],
    )
    assert rw.Certificate.from_bytes(bundle.files["certificate.json"]).passed
