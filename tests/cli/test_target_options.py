"""Targets and engines on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import roadworthy

SOURCE = "my_policy.py:cartpole"


@pytest.fixture(scope="module")
def both(workshop: Path) -> Path:
    """The workshop, with a bundle that is ONNX and torch.export."""
    words = ("export", SOURCE, "-o", "both", "--target", "onnx", "--target", "torch_export")
    made = roadworthy(*words, "--json", cwd=workshop)
    assert made.code == 0, made.err
    data = made.json()
    assert data["targets"] == {"onnx": "policy.onnx", "torch_export": "policy.pt2"}
    assert {each["target"] for each in data["certificate"]["checks"]} == set(data["targets"])
    return workshop


def test_unknown_target_is_a_usage_error_before_anything_is_loaded(workshop: Path) -> None:
    result = roadworthy("export", "nowhere.py:x", "-o", "x", "--target", "onx", cwd=workshop)
    assert result.code == 2
    assert "there is no target 'onx'" in result.err
    assert "did you mean 'onnx'?" in result.err


def test_missing_compiler_is_said_on_the_command_line(workshop: Path) -> None:
    """The command runs with an empty PATH."""
    result = roadworthy("export", SOURCE, "-o", "x", "--target", "aoti", cwd=workshop)
    assert result.code == 2
    assert "RW130 the target aoti needs a C++ compiler" in result.err
    assert not (workshop / "x").exists()


def test_verify_notes_what_was_not_run_and_runs_it_when_trusted(both: Path) -> None:
    noted = roadworthy("verify", "both", cwd=both)
    assert noted.code == 0
    assert "note: torch_export was not run: policy.pt2 is code" in noted.out
    trusted = roadworthy("verify", "both", "--trust", cwd=both)
    assert trusted.code == 0
    assert "torch_export replay" in trusted.out
    assert "note:" not in trusted.out


def test_inspect_lists_the_targets(both: Path) -> None:
    result = roadworthy("inspect", "both", cwd=both)
    assert "targets    onnx, torch_export" in result.out
    assert "operators  " in result.out
    assert roadworthy("inspect", "both", "--json", cwd=both).json()["targets"] == {
        "onnx": "policy.onnx",
        "torch_export": "policy.pt2",
    }


def test_inspect_reads_a_lone_archive_without_opening_it_as_code(both: Path) -> None:
    result = roadworthy("inspect", "both/policy.pt2", cwd=both)
    assert result.code == 0, result.err
    assert "obs" in result.out
    assert "operators" not in result.out


def test_graph_of_onnx_is_shown_node_by_node(both: Path) -> None:
    result = roadworthy("inspect", "both", "--graph", cwd=both)
    lines = result.out.splitlines()
    assert "input   obs float32 (batch, 4)" in lines
    assert "output  actions int64 (batch,)" in lines
    weights = [line for line in lines if line.startswith("weight")]
    assert any(line.endswith("float32 (16, 4)") for line in weights)
    nodes = [line for line in lines if " → " in line]
    assert [line.partition("(")[0] for line in nodes][-1] == "ArgMax"
    assert any(line.startswith("Gemm(obs float32 (batch, 4), ") for line in nodes)
    assert all(line.endswith(")") for line in nodes)
    alone = roadworthy("inspect", "both/policy.onnx", "--graph", cwd=both)
    assert alone.out == result.out


def test_graph_of_torch_export_is_its_code_and_needs_trust(both: Path) -> None:
    words = ("inspect", "both", "--graph", "--target", "torch_export")
    refused = roadworthy(*words, cwd=both)
    assert refused.code == 2
    assert "RW211" in refused.err
    shown = roadworthy(*words, "--trust", cwd=both)
    assert shown.code == 0, shown.err
    assert "torch.ops.aten.linear.default(" in shown.out
    assert "torch.ops.aten.argmax.default(" in shown.out
    assert roadworthy(*words, "--trust", "--json", cwd=both).json() == {
        "graph": shown.out.splitlines()
    }


def test_graph_that_cannot_be_shown_is_explained(both: Path) -> None:
    lone = roadworthy("inspect", "both/policy.pt2", "--graph", cwd=both)
    assert lone.code == 2
    assert "--graph of a .pt2 needs the folder" in lone.err
    other = roadworthy("inspect", "both", "--graph", "--target", "aoti", cwd=both)
    assert "there is no aoti target here, only onnx, torch_export" in other.err


def test_bench_measures_several_engines_in_turns(both: Path) -> None:
    words = ("bench", "both", "--rounds", "2", "--engine", "onnx", "--engine", "torch_export")
    assert "RW211" in roadworthy(*words, cwd=both).err
    measured = roadworthy(*words, "--trust", "--json", cwd=both).json()["latency"]
    names = ["Policy.step", "Policy.step (torch_export)", "InferenceSession.run"]
    assert list(measured) == names
    alone = roadworthy("bench", "both", "--rounds", "2", *words[6:], "--trust", cwd=both)
    assert alone.code == 0, alone.err
    assert "Policy.step (torch_export)" in alone.out
    assert "a plain run takes" not in alone.out
