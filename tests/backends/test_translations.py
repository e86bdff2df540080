"""A custom operator is refused by name, translated or decomposed on request, and certified."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from onnxscript import FLOAT, opset18, opset20, script
from torch import Tensor, nn

import roadworthy as rw
from roadworthy.errors import UsageError
from tests.capture.failures.case import OBS
from tests.capture.failures.operators import CustomOperator, soft_clip


@script()
def soft_clip_in_onnx(x: FLOAT, limit: float) -> FLOAT:
    return opset18.Mul(opset18.Tanh(opset18.Div(x, limit)), limit)


@script()
def too_new(x: FLOAT, limit: float) -> FLOAT:
    return opset20.Mul(opset20.Tanh(opset20.Div(x, limit)), limit)


def stumbles(x: Any, limit: float) -> Any:
    return opset18.Mul(x, limit[0])  # type: ignore[index]


def plain(x: Any, limit: float) -> Any:
    return opset18.Mul(opset18.Tanh(opset18.Div(x, limit)), limit)


def forgets_the_limit(x: Any, limit: float) -> Any:
    return opset18.Tanh(x)


def soft_clip_in_torch(x: Tensor, limit: float) -> Tensor:
    return limit * torch.tanh(x / limit)


def raises(x: Tensor, limit: float) -> Tensor:
    raise ValueError("no limit")


class Twice(CustomOperator):
    def forward(self, obs: Tensor) -> Tensor:
        once = torch.ops.failing.soft_clip(self.net(obs), 2.0)
        return torch.ops.failing.soft_clip(once, 1.0)


def refusal(folder: Path, module: nn.Module, **options: Any) -> tuple[rw.Finding, ...]:
    with pytest.raises(rw.RoadworthyError) as caught:
        rw.export(module, folder / "bundle", example=OBS, **options)
    assert not (folder / "bundle").exists()
    return caught.value.findings


def test_custom_operator_is_refused_at_every_line_that_uses_it(tmp_path: Path) -> None:
    findings = refusal(tmp_path, Twice())
    what = "the custom operator failing.soft_clip.default has no translation to ONNX"
    assert [(each.code, each.what) for each in findings] == [("RW108", what)] * 2
    assert ["(once = " in each.where for each in findings] == [True, False]
    assert findings[0].hint == (
        "rw.export(…, decompositions={torch.ops.failing.soft_clip.default: f}) with f written in "
        "torch operators, or translations={torch.ops.failing.soft_clip.default: f} with f "
        "written in onnxscript"
    )


@pytest.mark.parametrize("function", [soft_clip_in_onnx, plain], ids=["onnxscript", "plain"])
def test_translation_is_used_certified_and_recorded(tmp_path: Path, function: Any) -> None:
    bundle = rw.export(
        CustomOperator(), tmp_path / "bundle", example=OBS, translations={soft_clip(): function}
    )
    assert bundle.manifest["translations"] == {"failing.soft_clip.default": function.__name__}
    assert bundle.manifest["decompositions"] == {}
    operators = {
        node.op_type for node in onnx.load_from_string(bundle.files["policy.onnx"]).graph.node
    }
    assert operators == {"Gemm", "Tanh", "Div", "Mul"}


def test_wrong_translation_fails_the_certificate(tmp_path: Path) -> None:
    findings = refusal(tmp_path, CustomOperator(), translations={soft_clip(): forgets_the_limit})
    assert "RW300" in {each.code for each in findings}


def test_translation_in_another_opset_is_explained(tmp_path: Path) -> None:
    finding, *_ = refusal(tmp_path, CustomOperator(), translations={soft_clip(): too_new})
    assert finding == rw.Finding(
        code="RW193",
        what="the translation too_new is written in opset 20",
        hint="write it with onnxscript.opset18: torch.onnx writes opset 18, "
        "and converts the whole to the opset that was asked for",
    )


def test_translation_that_raises_is_shown_with_its_line(tmp_path: Path) -> None:
    finding, *_ = refusal(tmp_path, CustomOperator(), translations={soft_clip(): stumbles})
    assert finding.code == "RW193"
    assert finding.what == "a translation raised TypeError: 'float' object is not subscriptable"
    assert "(return opset18.Mul(x, limit[0])" in finding.where


def test_decomposition_is_used_certified_and_recorded(tmp_path: Path) -> None:
    bundle = rw.export(
        Twice(), tmp_path / "bundle", example=OBS,
        decompositions={soft_clip(): soft_clip_in_torch},
    )  # fmt: skip
    assert bundle.manifest["decompositions"] == {"failing.soft_clip.default": "soft_clip_in_torch"}


def test_failing_decomposition_is_shown_with_its_line(tmp_path: Path) -> None:
    finding, *_ = refusal(tmp_path, CustomOperator(), decompositions={soft_clip(): raises})
    assert finding.code == "RW193"
    assert finding.what == "a decomposition raised ValueError: no limit"
    assert finding.where.endswith('(raise ValueError("no limit"))')
    assert finding.hint == (
        "it gets the operator's arguments, and must return tensors of the same shapes"
    )


def test_tables_are_checked_before_anything_runs(tmp_path: Path) -> None:
    operator = soft_clip()

    def export(**tables: object) -> None:
        rw.export(nn.Identity(), tmp_path / "bundle", example=OBS, **tables)

    for table, text in {
        (torch.ops.failing.soft_clip, plain): "[RW001] translations: failing.soft_clip has "
        "several overloads, expected one of them\n  → torch.ops.failing.soft_clip.default",
        ("soft_clip", plain): "[RW001] translations: expected an operator, got 'soft_clip'\n"
        "  → translations={torch.ops.mylib.op.default: function}",
        (operator, 3): "[RW001] translations: expected a function for failing.soft_clip.default, "
        "got int\n  → pass a Python function that takes the operator's arguments",
    }.items():  # fmt: skip
        with pytest.raises(UsageError) as caught:
            export(translations=dict([table]))  # type: ignore[list-item]
        assert str(caught.value) == text
    with pytest.raises(UsageError) as caught:
        export(translations={operator: plain}, decompositions={operator: plain})
    assert str(caught.value) == (
        "[RW001] failing.soft_clip.default has a translation and a decomposition\n  → keep "
        "one: a decomposed operator is gone before translations are applied"
    )
