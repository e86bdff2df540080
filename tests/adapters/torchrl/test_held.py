"""Modules that keep their weights or statistics in TensorDicts, as TD-MPC2 does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensordict import TensorDict, TensorDictParams
from torch import Tensor, nn

import roadworthy as rw

OBS = torch.linspace(-2, 2, 24).reshape(4, 6)


class Ensemble(nn.Module):
    """Q functions as in TD-MPC2: stacked weights, called through one module that has none."""

    def __init__(self) -> None:
        super().__init__()
        nets = [nn.Sequential(nn.Linear(6, 8), nn.ELU(), nn.Linear(8, 2)) for _ in range(3)]
        self.params = TensorDict.from_modules(*nets, as_module=True)
        with self.params[0].data.to("meta").to_module(nets[0]):
            self.module = nets[0]

    def _call(self, params: Any, x: Tensor) -> Tensor:
        with params.to_module(self.module):
            result: Tensor = self.module(x)
        return result

    def forward(self, obs: Tensor) -> Tensor:
        together = torch.vmap(self._call, (0, None), randomness="different")
        mean: Tensor = together(self.params, obs).mean(0)
        return mean


class Parameters(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        held = {"weight": torch.linspace(-1, 1, 12).reshape(6, 2), "bias": torch.ones(2)}
        self.params = TensorDictParams(TensorDict(held))

    def forward(self, obs: Tensor) -> Tensor:
        result: Tensor = obs @ self.params["weight"] + self.params["bias"]
        return result


class Locked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stats = TensorDict({"mean": torch.ones(6), "std": 2 * torch.ones(6)}).lock_()
        self.net = nn.Linear(6, 2)

    def forward(self, obs: Tensor) -> Tensor:
        result: Tensor = self.net((obs - self.stats["mean"]) / self.stats["std"])
        return result


@pytest.mark.parametrize("kind", [Ensemble, Parameters, Locked])
def test_policies_that_hold_tensordicts_are_certified_and_untouched(
    kind: type[nn.Module], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    module = kind().eval()
    names = [name for name, _ in module.named_parameters()]
    held = dict(vars(module)), dict(module._modules)
    bundle = rw.export(module, tmp_path / "bundle", example={"obs": OBS})
    assert rw.Certificate.from_bytes(bundle.files["certificate.json"]).passed
    assert [name for name, _ in module.named_parameters()] == names
    assert (dict(vars(module)), dict(module._modules)) == held
    policy = rw.load(bundle.folder)
    for rows in (1, 3):
        with torch.no_grad():
            expected = module(OBS[:rows])
        np.testing.assert_allclose(policy.act(OBS[:rows].numpy()), expected.numpy(), atol=1e-5)


class Grouped(nn.Module):
    """Observations by group in one TensorDict, as rsl_rl passes them."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6, 2)

    def forward(self, obs: Any) -> Tensor:
        result: Tensor = self.net(obs["policy"])
        return result


def test_an_example_may_be_a_tensordict(tmp_path: Path) -> None:
    example = TensorDict({"policy": OBS}, [4])
    bundle = rw.export(Grouped(), tmp_path / "bundle", example=example)
    assert [port.name for port in bundle.signature.inputs] == ["policy"]


def test_a_locked_tensordict_is_locked_afterwards(tmp_path: Path) -> None:
    module = Locked()
    rw.export(module, tmp_path / "bundle", example={"obs": OBS})
    assert module.stats.is_locked
