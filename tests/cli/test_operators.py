"""`inspect --operators` says what a runtime must have, and where precision changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw
from roadworthy.cli.app import app
from roadworthy.targets.onnx.operators import (
    OperatorCount,
    PrecisionChange,
    first_precision_change,
    operators,
    port_dtypes,
)
from tests.conftest import Exported


class SumInDouble(nn.Module):
    """Adds up in float64, as careful people do, and returns float32."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 2)

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs) + obs.double().sum(-1, keepdim=True).float()


@pytest.fixture(scope="module")
def in_double(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("operators") / "bundle"
    rw.export(SumInDouble(), folder, example={"obs": torch.ones(2, 4)})
    return folder


def test_operators_are_counted_with_the_opset_that_brought_them(in_double: Path) -> None:
    found = {each.name: each for each in operators((in_double / "policy.onnx").read_bytes())}
    assert found["Gemm"] == OperatorCount(name="Gemm", count=1, since=13)
    assert found["Cast"] == OperatorCount(name="Cast", count=2, since=19)
    assert sum(each.count for each in found.values()) == len(
        onnx.load(in_double / "policy.onnx").graph.node
    )


def test_first_change_of_precision_is_found(in_double: Path) -> None:
    change = first_precision_change((in_double / "policy.onnx").read_bytes())
    assert change is not None
    assert (change.operator, change.before, change.after) == ("Cast", "float32", "float64")
    assert str(PrecisionChange(node="n", operator="Cast", before="float32", after="float64")) == (
        "float32 → float64 at Cast 'n'"
    )


def test_policy_of_one_precision_has_no_change(export_once: Callable[[str], Exported]) -> None:
    model = export_once("lstm").bundle.files["policy.onnx"]
    assert first_precision_change(model) is None
    assert set(port_dtypes(model).values()) == {"float32"}


def test_inspect_prints_operators(in_double: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app(["inspect", str(in_double), "--operators"], standalone_mode=False)
    shown = capsys.readouterr().out.split()
    assert " ".join(shown).startswith(
        "Ports port dtype obs float32 actions float32 Operators operator count since opset Cast 2"
    )
    assert "needs opset 19 or later precision float32 → float64 at Cast" in " ".join(shown)


def test_inspect_prints_operators_as_json(
    in_double: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app(["inspect", str(in_double / "policy.onnx"), "--operators", "--json"], standalone_mode=False)
    data = json.loads(capsys.readouterr().out)
    assert data["dtypes"] == {"obs": "float32", "actions": "float32"}
    assert data["needs_opset"] == 19
    assert data["precision_change"]["after"] == "float64"
