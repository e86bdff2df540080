"""Tanh is never above 1 where something behind it ends there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import torch
from torch import Tensor, nn

import roadworthy as rw


class Angles(nn.Module):
    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        unit = torch.tanh(obs)
        return torch.acos(unit) + torch.sqrt(1 - unit * unit), unit


class Plain(nn.Module):
    def forward(self, obs: Tensor) -> Tensor:
        return torch.tanh(obs) * 3


def test_angles_of_a_tanh_are_numbers(tmp_path: Path) -> None:
    """onnxruntime's tanh gives up to 1.0000002 for these: found by a stranger, as NaN."""
    example = {"obs": torch.zeros(1, 64)}
    rw.export(Angles(), tmp_path / "b", example=example, outputs=("actions", "unit"))
    obs = np.linspace(7, 10, 64 * 512, dtype=np.float32).reshape(512, 64)
    got = rw.load(tmp_path / "b").step({"obs": obs})
    assert got["unit"].max() <= 1
    with torch.no_grad():
        expected = Angles()(torch.from_numpy(obs))[0].numpy()
    assert np.allclose(got["actions"], expected, atol=2e-3)  # √(1 - c²) near 1
    both = rw.load(tmp_path / "b").step({"obs": -obs})["actions"]
    assert np.isfinite(both).all()


def test_nothing_is_clipped_for_its_own_sake(tmp_path: Path) -> None:
    rw.export(Plain(), tmp_path / "b", example={"obs": torch.zeros(1, 4)})
    model = onnx.load(tmp_path / "b" / "policy.onnx")
    assert [node.op_type for node in model.graph.node] == ["Tanh", "Mul"]
