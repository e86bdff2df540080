"""Large convolutions along one axis are written as over planes; the others stay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import torch
from torch import Tensor, nn

import roadworthy as rw


class Lines(nn.Module):
    """Large ones in several forms, one of them twice, and a small one; the last is the output."""

    def __init__(self) -> None:
        super().__init__()
        self.same = nn.Conv1d(64, 64, 5, padding=2)
        self.wide = nn.Conv1d(64, 64, 4, stride=2, padding=3, dilation=2, bias=False)
        self.groups = nn.Conv1d(64, 256, 5, groups=4)
        self.small = nn.Conv1d(256, 4, 1)
        self.last = nn.Conv1d(4, 2048, 2)

    def forward(self, obs: Tensor) -> Tensor:
        x = self.same(self.same(obs).relu()).tanh()
        out: Tensor = self.last(self.small(self.groups(self.wide(x))))
        return out


def test_large_convolutions_are_over_planes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = Lines().eval()
    rw.export(module, tmp_path / "b", example={"obs": torch.zeros(1, 64, 16)}, progress=False)
    graph = onnx.load(tmp_path / "b" / "policy.onnx").graph
    sizes = {each.name: tuple(each.dims) for each in graph.initializer}
    weights = [sizes[node.input[1]] for node in graph.node if node.op_type == "Conv"]
    assert weights == [
        (64, 64, 1, 5), (64, 64, 1, 5), (64, 64, 1, 4), (256, 16, 1, 5), (4, 256, 1),
        (2048, 4, 1, 2),
    ]  # fmt: skip
    used = {name for node in graph.node for name in node.input}
    assert set(sizes) <= used  # what several share is there once, and no weight is left over
    assert sum(len(shape) == 4 for shape in sizes.values()) == 4
    obs = torch.randn(3, 64, 16)
    with torch.no_grad():
        expected = module(obs).numpy()
    got = rw.load(tmp_path / "b").step({"obs": obs.numpy()})["actions"]
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
