"""`softmax(x, dtype=…)` and its kin compute in the dtype that they are asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw

WRITTEN = {
    "softmax": lambda x, dtype: torch.softmax(x, -1, dtype=dtype),
    "log_softmax": lambda x, dtype: torch.log_softmax(x, -1, dtype=dtype),
    "mean": lambda x, dtype: x.mean(-1, keepdim=True, dtype=dtype),
    "mean of all but rows": lambda x, dtype: x.reshape(-1, 2, 3).mean((1, 2), dtype=dtype),
    "sum": lambda x, dtype: x.sum(-1, dtype=dtype),
}


class Asking(nn.Module):
    """Halves or floats that are to be summed up in something wider."""

    def __init__(self, name: str, given: torch.dtype, asked: torch.dtype) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Linear(6, 6)
        self.write, self.given, self.asked = WRITTEN[name], given, asked

    def forward(self, obs: Tensor) -> Tensor:
        return self.write(self.net(obs).to(self.given), self.asked)


@pytest.mark.parametrize(
    ("given", "asked", "near"),
    [(torch.float16, torch.float32, 2e-6), (torch.float32, torch.float64, 2e-14)],
    ids=["half", "float"],
)
@pytest.mark.parametrize("name", WRITTEN)
def test_it_is_computed_in_the_dtype_that_is_asked_for(
    name: str, given: torch.dtype, asked: torch.dtype, near: float, tmp_path: Path
) -> None:
    module = Asking(name, given, asked)
    # In whole steps of a sixteenth every layer but the last is exact.
    module.net.weight.data = (module.net.weight.data * 16).round() / 16
    module.net.bias.data.zero_()
    rw.export(module, tmp_path / "b", example={"obs": torch.zeros(1, 6)})
    obs = torch.randint(-8, 8, (50, 6)).float()
    wanted = module(obs).detach().numpy()
    for engine in ("onnx", "c"):
        got = rw.load(tmp_path / "b", engine=engine).step({"obs": obs.numpy()})["actions"]
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, rtol=near, atol=near)
