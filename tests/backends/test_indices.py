"""`table[i]` and `x[i] = y` with places of int32, as counters and choices often are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import roadworthy as rw


class Chosen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Parameter(torch.randn(5, 4))
        self.grid = nn.Parameter(torch.randn(3, 5, 4))

    def forward(self, obs: Tensor, choice: Tensor) -> Tensor:
        place = choice % 4
        marked = obs.clone()
        marked[torch.arange(obs.shape[0], dtype=torch.int32), place] = 7.0
        return (
            self.table[place] + self.grid[choice % 3, place] + self.grid[:, place].sum(0) + marked
        )


def test_places_may_be_int32(tmp_path: Path) -> None:
    module = Chosen()
    example = {"obs": torch.randn(2, 4), "choice": torch.zeros(2, dtype=torch.int32)}
    rw.export(module, tmp_path / "b", example=example, about={"choice": rw.About(low=0, high=99)})
    obs, choice = torch.randn(20, 4), torch.arange(20, dtype=torch.int32)
    wanted = module(obs, choice).detach()
    for engine in ("onnx", "c"):
        got = rw.load(tmp_path / "b", engine=engine).step(
            {"obs": obs.numpy(), "choice": choice.numpy()}
        )
        np.testing.assert_allclose(got["actions"], wanted, rtol=1e-6, atol=1e-6)
