"""A graph is traced anew for its ONNX file only where an operator has to be taken apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw
from roadworthy.targets.onnx import settled


class Renamed(nn.Module):
    """Operators that are others under a simpler name, and a view."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.ConvTranspose1d(4, 3, 4, 2, 1)
        self.plane = nn.ConvTranspose2d(3, 2, (2, 3), stride=2, output_padding=(1, 0))
        self.head = nn.LazyLinear(5)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        first, second, third = self.line(input).chunk(3, dim=2)
        wide = self.plane(torch.stack([first, second], -1))
        out: Tensor = self.head(torch.cat([wide.flatten(1), third.flatten(1)], -1))
        return out


class TakenApart(nn.Module):
    """Operators for which ONNX has no form."""

    def forward(self, obs: Tensor) -> Tensor:
        return torch.special.entr(obs.sigmoid()) + nn.functional.hardtanh(obs).flip(-1)


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The graphs that torch.export traced for the file."""
    seen: list[object] = []
    plain = settled.Program.run_decompositions

    def noted(self: settled.Program, *args: object, **kwargs: object) -> object:
        seen.append(self)
        return plain(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(settled.Program, "run_decompositions", noted)
    return seen


def steps_alike(module: nn.Module, folder: Path, example: Tensor) -> onnx.ModelProto:
    with torch.no_grad():
        module(example)
    rw.export(module, folder, example=example, progress=False)
    policy = rw.load(folder)
    (port,) = policy.signature.inputs
    rows = torch.randn(5, *example.shape[1:])
    got = policy.step({port.name: rows.numpy()})["actions"]
    with torch.no_grad():
        np.testing.assert_allclose(got, module(rows).numpy(), rtol=1e-5, atol=1e-5)
    return onnx.load(folder / "policy.onnx")


def test_operators_under_simpler_names_are_not_traced_anew(
    tmp_path: Path, traced: list[object]
) -> None:
    model = steps_alike(Renamed(), tmp_path / "b", torch.zeros(1, 4, 6))
    assert traced == []
    assert [node.op_type for node in model.graph.node].count("ConvTranspose") == 2


def test_operators_without_a_form_are_taken_apart(tmp_path: Path, traced: list[object]) -> None:
    steps_alike(TakenApart(), tmp_path / "b", torch.zeros(1, 4))
    assert len(traced) == 1
