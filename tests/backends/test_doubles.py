"""Policies in float64: activations, norms and numbers with all of their 53 bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import roadworthy as rw

Function = Callable[[Tensor], Tensor]


def trained(norm: nn.Module) -> nn.Module:
    """A norm whose statistics and weights are those of no fresh one."""
    torch.manual_seed(1)
    for each in (*norm.parameters(), *norm.buffers()):
        if each.is_floating_point():
            nn.init.uniform_(each, 0.1, 1.5)
    return norm.double()


# What torchlib writes with numbers of float32, and what onnxruntime has no float64 for.
GROUPS: dict[str, dict[str, Function]] = {
    "activations": {
        "elu": lambda x: F.elu(x, 0.3), "selu": F.selu, "celu": lambda x: F.celu(x, 0.3),
        "leaky": lambda x: F.leaky_relu(x, 0.013), "softplus": lambda x: F.softplus(x, 0.7, 15.0),
        "mish": F.mish, "hardtanh": lambda x: F.hardtanh(x, -0.3, 0.7),
        "prelu": lambda x: F.prelu(x, torch.linspace(0.1, 0.8, 8, dtype=x.dtype)),
        "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish, "log_sigmoid": F.logsigmoid,
    },
    "norms": {
        "layer": trained(nn.LayerNorm(8)), "plain": nn.LayerNorm(8, elementwise_affine=False),
        "batch": trained(nn.BatchNorm1d(8)),
        "batch_plain": trained(nn.BatchNorm1d(8, affine=False)),
        "group": trained(nn.GroupNorm(2, 8)),
        "image": lambda x: F.group_norm(x.reshape(-1, 4, 1, 2), 2, eps=1e-3).flatten(1),
    },
    "numbers": {
        "log2": lambda x: torch.log2(x.abs() + 1), "log10": lambda x: torch.log10(x.abs() + 1),
        "logaddexp": lambda x: torch.logaddexp(x, 1 - x), "sinc": torch.sinc,
        "logit": lambda x: torch.logit(x / 50 + 0.5, 1e-6),
        "addcmul": lambda x: torch.addcmul(x, x, x + 1, value=0.3),
        "addcdiv": lambda x: torch.addcdiv(x, x, x.abs() + 1, value=0.3),
        "full": lambda x: x + torch.full((8,), 0.1, dtype=x.dtype),
        "linspace": lambda x: x * torch.linspace(0.1, 0.7, 8, dtype=x.dtype),
        "arange": lambda x: x * torch.arange(0.1, 0.85, 0.1, dtype=x.dtype),
    },
}  # fmt: skip


class Each(nn.Module):
    """Every function of a group, each as an output of its own; one of float32 among them."""

    def __init__(self, group: dict[str, Function]) -> None:
        super().__init__()
        self.functions = group
        self.norms = nn.ModuleList(each for each in group.values() if isinstance(each, nn.Module))

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        single = F.elu(F.layer_norm(obs.float(), (8,)))
        return {"single": single} | {name: each(obs) for name, each in self.functions.items()}


@pytest.mark.parametrize("group", GROUPS)
def test_float64_is_exact(group: str, tmp_path: Path) -> None:
    module = Each(GROUPS[group]).eval()
    example = {"obs": torch.randn(2, 8, dtype=torch.float64)}
    bundle = rw.export(module, tmp_path / "bundle", example=example)
    notes = rw.Certificate.from_bytes(bundle.files["certificate.json"]).findings
    assert not [each for each in notes if each.what.startswith(("celu", "selu"))]
    policy = rw.load(tmp_path / "bundle")
    # Both sides of every bend, and where a number of float32 is 1e-8 off.
    obs = torch.randn(200, 8, dtype=torch.float64) * torch.logspace(-3, 1.3, 200)[:, None]
    wanted, got = module(obs), policy.step({"obs": obs.numpy()})
    for name in GROUPS[group]:
        assert got[name].dtype == np.float64
        np.testing.assert_allclose(got[name], wanted[name].detach(), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(got["single"], wanted["single"].detach(), rtol=1e-4, atol=1e-6)
