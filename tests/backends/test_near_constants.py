"""What is nearly nothing is still done: an epsilon of 1e-8 keeps a policy from dividing by zero."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw


class Doing(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, obs: Tensor) -> Tensor:
        return self.function(obs)


def normalised(x: Tensor) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt((x * x).mean(-1, keepdim=True).sub(mean**2).clamp_min(0) + 1e-8)


NEAR: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "normalised": (normalised, "Add"),
    "of its variance": (
        lambda x: (x - x.mean(-1, True)) / torch.sqrt(x.var(-1, keepdim=True) + 1e-8),
        "Add",
    ),
    "unit": (lambda x: x / (x.norm(dim=-1, keepdim=True) + 1e-8), "Add"),
    "logarithm": (lambda x: torch.log(x * x + 1e-9), "Add"),
    "reversed": (lambda x: torch.log(1e-9 + x * x), "Add"),
    "product": (lambda x: x * 1.000005, "Mul"),
    "difference": (lambda x: torch.sqrt((x.abs() - 1e-9).clamp_min(0)), "Sub"),
    "quotient": (lambda x: x / 0.999995, "Div"),
    "of halves": (lambda x: torch.log((x * x).half().double() + 1e-9).float(), "Add"),
}


@pytest.mark.parametrize("name", NEAR)
def test_a_number_that_is_nearly_idle_is_kept(name: str, tmp_path: Path) -> None:
    function, operator = NEAR[name]
    module = Doing(function)
    rw.export(module, tmp_path / "b", example={"obs": torch.zeros(1, 4)})
    model = onnx.load(tmp_path / "b" / "policy.onnx")
    assert operator in {node.op_type for node in model.graph.node}
    torch.manual_seed(0)
    obs = torch.cat([torch.zeros(1, 4), 1e-5 * torch.randn(5, 4), torch.randn(5, 4)])
    got = rw.load(tmp_path / "b").act(obs.numpy())
    np.testing.assert_allclose(got, module(obs), rtol=2e-5, atol=1e-6)


def test_the_same_number_is_kept_as_often_as_it_is_used(tmp_path: Path) -> None:
    module = Doing(
        lambda x: (
            torch.nn.functional.pairwise_distance(x, x.flip(-1), keepdim=True)
            + torch.nn.functional.pairwise_distance(x, 2 * x, keepdim=True)
        )
    )
    rw.export(module, tmp_path / "b", example={"obs": torch.zeros(1, 4)})
    obs = torch.randn(5, 4)
    got = rw.load(tmp_path / "b").act(obs.numpy())
    np.testing.assert_allclose(got, module(obs), rtol=2e-5, atol=1e-6)


def test_what_is_idle_is_left_out(tmp_path: Path) -> None:
    rw.export(
        Doing(lambda x: torch.tanh((x + 0.0) * 1.0)), tmp_path / "b",
        example={"obs": torch.zeros(1, 4)},
    )  # fmt: skip
    model = onnx.load(tmp_path / "b" / "policy.onnx")
    assert [node.op_type for node in model.graph.node] == ["Tanh"]


def test_numbers_without_axes_stay_so(tmp_path: Path) -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(2.0))

        def forward(self, obs: Tensor) -> Tensor:
            return obs / (self.scale + 1e-8)

    rw.export(Scaled(), tmp_path / "b", example={"obs": torch.zeros(1, 4)})
    assert rw.load(tmp_path / "b").act(np.ones((3, 4), np.float32)).shape == (3, 4)
