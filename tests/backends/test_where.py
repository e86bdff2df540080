"""`torch.where` of every dtype: of some of them onnxruntime's Where is lacking."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw

DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float64")


class Latched(nn.Module):
    """What was above a limit at the step before; the first step is its own past."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Linear(6, 4)
        self.dtype = dtype
        self.before: Tensor | None = None

    def forward(self, obs: Tensor) -> Tensor:
        action: Tensor = self.net(obs)
        now = (action.abs() > 0.5).to(self.dtype)
        before = now if self.before is None else self.before
        self.before = now
        chosen = torch.where(obs[:, :1] > 0, before, now)
        return action * (1 + chosen.float())


@pytest.mark.parametrize("name", DTYPES)
def test_memory_that_starts_at_its_first_input_and_a_choice(name: str, tmp_path: Path) -> None:
    module = Latched(getattr(torch, name))
    memory = {"before": rw.Attribute("before", initial="first input")}
    rw.export(module, tmp_path / "b", example={"obs": torch.zeros(1, 6)}, memory=memory)
    obs = torch.randn(12, 3, 6)
    for engine in ("onnx", "c"):
        policy = rw.load(tmp_path / "b", engine=engine)
        module.before = None
        for each in obs:
            wanted = module(each).detach().numpy()
            np.testing.assert_allclose(policy.act(each.numpy()), wanted, rtol=1e-5, atol=1e-6)
