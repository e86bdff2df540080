"""What leaves the graph has the type that PyTorch gives it, whatever the exporter computes in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw

HALF, BYTES = torch.float16, torch.uint8
WRITTEN: dict[str, tuple[torch.dtype, Callable[[Tensor], Tensor]]] = {
    "sum of halves": (HALF, lambda x: x.sum(1)),
    "running sum of halves": (HALF, lambda x: x.cumsum(1)),
    "largest half": (HALF, lambda x: x.amax(1)),
    "sum in the midst": (HALF, lambda x: x.sum(1, keepdim=True) * x),
    "bytes to the left": (BYTES, lambda x: x << 1),
    "bytes to the right": (BYTES, lambda x: x >> 1),
    "bytes by bytes": (BYTES, lambda x: torch.bitwise_left_shift(x, x & 3)),
    "bytes as floats": (BYTES, lambda x: (x << 1).float()),
    "whole numbers": (torch.int64, lambda x: (x >> 1) + (x << 2)),
}


class Written(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.function = WRITTEN[name][1]

    def forward(self, obs: Tensor) -> Tensor:
        return self.function(obs)


@pytest.mark.parametrize("targets", [("c",), ("onnx", "c")], ids="-".join)
@pytest.mark.parametrize("name", WRITTEN)
def test_type_and_values_are_pytorchs(name: str, targets: tuple[str, ...], tmp_path: Path) -> None:
    dtype = WRITTEN[name][0]
    example = {"obs": torch.zeros(1, 6, dtype=dtype)}
    rw.export(Written(name), tmp_path / "b", example=example, targets=targets)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        obs = torch.randint(0, 250, (5, 6)).to(dtype)
    wanted = Written(name)(obs).numpy()
    for engine in targets:
        got = rw.load(tmp_path / "b", engine=engine, trust=True).act(obs.numpy())
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)
