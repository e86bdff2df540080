"""The batch axis of a memory is found where a size of the network looks like a number of rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import roadworthy as rw


class Phase(nn.Module):
    """An LSTM, whose memory has its rows second, and a phase, which has them first.

    Three columns: a phase laid out as (1, 3) fits beside three rows too.
    """

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lstm = nn.LSTM(3, 2)
        self.register_buffer("h", torch.zeros(1, 1, 2))
        self.register_buffer("c", torch.zeros(1, 1, 2))
        self.register_buffer("phase", torch.full((1, 1), 0.25))

    def forward(self, obs: Tensor) -> Tensor:
        out, (self.h, self.c) = self.lstm(obs.unsqueeze(0), (self.h, self.c))
        self.phase = torch.remainder(self.phase + 0.03, 1.0)
        return torch.cat([out.squeeze(0), obs * torch.sin(6.28 * self.phase)], -1)


def test_three_rows_beside_three_columns(tmp_path: Path) -> None:
    rw.export(
        Phase(),
        tmp_path / "b",
        example={"obs": torch.zeros(1, 3)},
        memory={"h": "h", "c": "c", "phase": rw.Attribute("phase", initial="current")},
    )
    policy = rw.load(tmp_path / "b")
    shapes = {each.name: each.shape for each in policy.signature.memory}
    assert shapes == {"h": (1, "batch", 2), "c": (1, "batch", 2), "phase": ("batch", 1)}
    live, obs = Phase(), torch.randn(6, 1, 3)
    for now in obs:
        np.testing.assert_allclose(
            policy.act(now.numpy()), live(now).detach(), rtol=1e-5, atol=1e-6
        )


class Masked(nn.Module):
    """Memory that is an attribute, before a choice under a mask that the module does not take."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Linear(3, 4)
        self.register_buffer("last", torch.zeros(1, 4))

    def forward(self, obs: Tensor) -> Tensor:
        self.last = 0.5 * self.last + self.net(obs)
        return self.last


def test_memory_before_a_choice_under_a_mask(tmp_path: Path) -> None:
    rw.export(
        Masked(),
        tmp_path / "b",
        example={"obs": torch.zeros(1, 3)},
        memory={"last": "last"},
        action=rw.Argmax(mask="allowed"),
    )
    policy = rw.load(tmp_path / "b")
    obs = np.zeros((1, 3), np.float32)
    for only in range(4):
        allowed = np.eye(4, dtype=bool)[only : only + 1]
        assert policy.step({"obs": obs, "allowed": allowed})["actions"].tolist() == [only]
