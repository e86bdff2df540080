"""The numbers of a policy are in its file: those of float64 in float64, small ones too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw


class Double(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Linear(4, 3).double()
        self.function = function

    def forward(self, obs: Tensor) -> Tensor:
        return self.function(self.net(obs))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.sqrt(x.abs() + 0.01),
        lambda x: torch.where(x > 0.1, x / 0.7, 0.3) + torch.full_like(x, 0.1),
        lambda x: torch.remainder(x.clamp(-0.1, 0.3), 0.7) ** 1.3,
        lambda x: torch.cos(torch.deg2rad(100 * x)) + torch.rad2deg(x),
    ],
    ids=["added", "chosen", "clamped", "degrees"],
)
def test_a_constant_keeps_its_53_bits(function: Callable[[Tensor], Tensor], tmp_path: Path) -> None:
    module = Double(function)
    rw.export(module, tmp_path / "b", example={"obs": torch.zeros(1, 4, dtype=torch.float64)})
    obs = torch.randn(50, 4, dtype=torch.float64)
    got = rw.load(tmp_path / "b").act(obs.numpy())
    np.testing.assert_allclose(got, module(obs).detach(), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x / (x.sum(-1, keepdim=True) + 1e-8),
        lambda x: x / (x.sum(-1, keepdim=True).add_(1e-9)),
        lambda x: x / (x.sum(-1, keepdim=True) - (-1e-8)),
        lambda x: ((x + 1) * 1.000005 - (x + 1)) * 1e6,
    ],
    ids=["added", "in place", "subtracted", "multiplied"],
)
def test_a_number_that_does_next_to_nothing_is_kept(
    function: Callable[[Tensor], Tensor], tmp_path: Path
) -> None:
    class Divided(nn.Module):
        def forward(self, obs: Tensor) -> Tensor:
            return function(obs.relu())

    rw.export(Divided(), tmp_path / "b", example={"obs": torch.zeros(1, 4)})
    obs = torch.cat([torch.zeros(1, 4), torch.rand(3, 4)])
    got = rw.load(tmp_path / "b").act(obs.numpy())
    np.testing.assert_allclose(got, Divided()(obs), rtol=0.1)
