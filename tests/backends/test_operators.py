"""Operators are written as PyTorch computes them; where they are not, the certificate says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import operator_cases
import operator_sweep
import pytest
import torch
from onnxscript import opset18
from torch import Tensor, nn

import roadworthy as rw
from roadworthy.capture.program import Program
from roadworthy.errors import ExportError
from roadworthy.spec.bundle import POLICY
from roadworthy.spec.port import Port
from roadworthy.spec.signature import Signature
from roadworthy.targets.backend import Settings
from roadworthy.targets.onnx.notes import differences

# torch.onnx warns of its own parts; the backend keeps it quiet, torch.export does not.
pytestmark = pytest.mark.filterwarnings("ignore")
KINDS = {kind.name: kind for kind in operator_cases.kinds()}
# Operators that this project writes itself, and what may still differ.
MENDED: dict[str, dict[str, set[str]]] = {
    "float": {
        "x % 2π": set(), "wrap to π": set(), "7 // x": set(), "atan2 sin cos": set(),
        "logsigmoid": set(), "logit eps": set(), "clamp min": set(), "clamp max": set(),
        "x ** 0.5": set(), "x ** -0.5": set(), "sign": set(), "signbit": set(),
        "log1p": {"sign of zero"}, "x // 0.7": {"sign of zero"},
        # PyTorch's own gives NaN where the quotient overflows.
        "x % 0.7": {"a number for NaN"}, "fmod 0.7": {"a number for NaN"},
    },
    "pairs of floats": {
        "atan2": set(), "polar angle": set(), "logaddexp": set(), "logaddexp2": set(),
        "hypot": set(), "copysign": set(), "xlogy": set(), "maximum": set(),
        "fmax": {"sign of zero"}, "fmin": {"sign of zero"},
        "remainder": {"a number for NaN"}, "floor_divide": {"sign of zero"},
    },
    "pairs of integers": {
        "floor_divide": set(), "div floor": set(), "div trunc": set(), "fmod": set(), "%": set(),
        "// -7": set(),
    },
    "rows": {
        "logcumsumexp": set(), "cdist": set(), "sdpa": set(), "sdpa 3-D": set(),
        "cummax": {"sign of zero"}, "cummax indices": set(), "cummin": {"sign of zero"},
        "median": set(),
        "kthvalue": {"sign of zero"}, "sort values": set(), "sort descending": set(),
        "sort stable indices": set(), "argsort stable": set(), "cumsum": {"sign of zero"},
    },
    "layers": {
        "LSTM": {"sign of zero"}, "LSTM two layers": set(), "LSTM proj_size": set(),
        "LSTM bidirectional": {"sign of zero"}, "GRU": set(), "GRU bidirectional": set(),
    },
    # Scores that overflow are NaN in PyTorch even where they are masked.
    "rows with masks and indices": {
        "sdpa boolean mask": {"a number for NaN"}, "sdpa float mask": set(),
    },
}  # fmt: skip


def sample(kind: str, names: Any, settings: Settings | None = None) -> list[Any]:
    whole = KINDS[kind]
    chosen = {name: whole.functions[name] for name in names}
    part = operator_cases.Kind(whole.name, whole.inputs, chosen, whole.along)
    return list(operator_sweep.swept(part, settings))


@pytest.mark.parametrize("kind", MENDED)
def test_mended_operators_are_pytorchs_at_every_corner(kind: str) -> None:
    results = sample(kind, MENDED[kind])
    found = {each.operator: {d.what for d in each.differences} for each in results}
    assert [each.operator for each in results if each.refused] == []
    assert {name: what - MENDED[kind][name] for name, what in found.items()} == {
        name: set() for name in MENDED[kind]
    }


class Scattered(nn.Module):
    def forward(self, obs: Tensor) -> Tensor:
        return obs.scatter_add(1, obs.argsort(-1)[:, :2], 3 * obs)


def test_a_source_wider_than_its_index_is_scattered_in_part(tmp_path: Path) -> None:
    rw.export(Scattered(), tmp_path / "b", example={"obs": torch.zeros(1, 4)})
    obs = torch.randn(7, 4)
    got = rw.load(tmp_path / "b").act(obs.numpy())
    np.testing.assert_allclose(got, Scattered()(obs), rtol=1e-6)


class WrittenUnderMasks(nn.Module):
    """Elements, columns and rows that are chosen by flags."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("columns", torch.tensor([True, False, False, True]))

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        elements, columns, rows, flags = obs.clone(), obs.clone(), obs.clone(), obs > 0
        elements[elements < 0] = 0.0
        columns[:, self.columns] = 5.0
        rows[rows[:, 0] > 0] = torch.tensor([1.0, 2.0, 3.0, 4.0])
        flags[obs > 0.5] = False
        return {"elements": elements, "columns": columns, "rows": rows, "flags": flags}


def test_what_is_written_under_a_mask_needs_no_list_of_places(tmp_path: Path) -> None:
    module = WrittenUnderMasks()
    bundle = rw.export(module, tmp_path / "b", example={"obs": torch.zeros(1, 4)})
    obs = torch.randn(7, 4)
    wanted = {name: value.numpy() for name, value in module(obs).items()}
    got = rw.load(tmp_path / "b").step({"obs": obs.numpy()})
    assert all(np.array_equal(got[name], value) for name, value in wanted.items())
    operators = [node.op_type for node in onnx.load_from_string(bundle.files[POLICY]).graph.node]
    assert operators.count("Where") == 3
    assert operators.count("NonZero") == 1  # onnxruntime chooses between flags by no Where


def doubled(self: Any, other: Any) -> Any:
    return opset18.Add(self, self)


def test_users_own_translation_wins() -> None:
    settings = Settings(translations={torch.ops.aten.atan2.default: doubled})
    kind = KINDS["pairs of floats"]
    run = operator_sweep.exported(kind, ["atan2"], settings)
    ones = np.ones(3, np.float32)
    assert run({"in_0": ones, "in_1": ones})[0].tolist() == [2.0, 2.0, 2.0]


# Not those of the module: only its graph is looked at.
PORTS = Signature(
    inputs=(Port(name="obs", dtype="float32", shape=("batch", 4)),),
    outputs=(Port(name="actions", dtype="float32", shape=("batch", 4)),),
)


def program(module: nn.Module, *inputs: Tensor) -> Program:
    graph = torch.export.export(module.eval(), inputs, strict=False)
    return Program(signature=PORTS, graph=graph, recipe={}, source_name="module")


class Choosing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(4, 4)

    def forward(self, obs: Tensor, window: Tensor) -> tuple[Tensor, Tensor]:
        chosen = torch.nn.functional.elu(obs).argmax(-1)
        return chosen, self.rnn(window)[0]


def said(module: nn.Module, *inputs: Tensor, **keywords: Any) -> list[str]:
    return [each.what.split()[0] for each in differences(program(module, *inputs), **keywords)]


def test_differences_name_the_operators_and_their_lines() -> None:
    inputs = torch.zeros(2, 4), torch.zeros(1, 2, 4)
    notes = differences(program(Choosing(), *inputs))
    assert [each.what.split()[0] for each in notes] == ["elu", "argmax"]
    assert notes[1].what == (
        "argmax for rows in which some elements are NaN: NaN is passed over, "
        "where PyTorch chooses it"
    )
    assert all(each.severity == "note" and each.code == "RW340" for each in notes)
    assert "chosen = torch.nn.functional.elu(obs).argmax(-1)" in notes[1].where


def test_only_long_sequences_are_left_to_onnxruntime() -> None:
    assert said(Choosing(), torch.zeros(2, 4), torch.zeros(8, 2, 4)) == ["elu", "argmax"]
    assert said(Choosing(), torch.zeros(2, 4), torch.zeros(9, 2, 4)) == ["elu", "lstm", "argmax"]


def test_nothing_is_said_of_operators_that_the_user_writes() -> None:
    own = {torch.ops.aten.elu.default: doubled}
    assert said(nn.ELU(), torch.zeros(2, 4)) == ["elu"]
    assert said(nn.ELU(), torch.zeros(2, 4), translated=own) == []


def test_certificate_carries_the_differences(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.ELU())
    rw.export(net, tmp_path / "walker", example={"obs": torch.zeros(1, 4)})
    certificate = json.loads((tmp_path / "walker" / "certificate.json").read_text())
    assert [each["what"].split()[0] for each in certificate["findings"]] == ["elu"]


class Sampling(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 0.0 * torch.rand_like(x)


def test_random_operators_are_refused_with_their_line() -> None:
    kind = operator_cases.Kind("float", KINDS["float"].inputs, {"drawn": Sampling().forward})
    with pytest.raises(ExportError) as caught:
        operator_sweep.exported(kind, ["drawn"], Settings())
    (finding,) = caught.value.findings
    assert finding.code == "RW111"
    assert "RandomUniformLike" in finding.what
    assert "x + 0.0 * torch.rand_like(x)" in finding.where
