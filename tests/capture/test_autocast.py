"""Autocast in `forward`: float32 in the artifact, measured by the original's own precision."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import roadworthy as rw


class Autocast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))

    def forward(self, obs: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            action: Tensor = self.net(obs)
        return action.float()


def test_what_autocast_rounds_is_computed_in_float32(tmp_path: Path) -> None:
    module = Autocast()
    bundle = rw.export(module, tmp_path / "b", example={"obs": torch.zeros(1, 4)})
    (note,) = bundle.manifest["fixes"]
    assert note["what"] == "what it computes under an autocast is computed in float32"
    obs = torch.randn(5, 4)
    action = rw.load(tmp_path / "b").act(obs.numpy())
    with torch.no_grad():
        exact, own = module.net(obs).numpy(), module(obs).numpy()
    assert np.abs(action - exact).max() < 1e-5
    assert 1e-4 < np.abs(action - own).max() < 0.1
