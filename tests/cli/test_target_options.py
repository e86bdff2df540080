"""Targets and engines on the command line, called without a new process for each word."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from roadworthy.cli.app import run
from tests.cli.conftest import POLICY_FILE, Result

SOURCE = "my_policy.py:cartpole"
Call = Callable[..., Result]


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with my_policy.py and a bundle of its `cartpole`: ONNX and torch.export."""
    folder = tmp_path_factory.mktemp("targets")
    (folder / "my_policy.py").write_text(POLICY_FILE)
    words = ["export", SOURCE, "-o", "both", "--target", "torch_export", "--target", "onnx"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with pytest.raises(SystemExit) as ended:
            run(words)
    assert ended.value.code == 0
    return folder


@pytest.fixture
def call(
    workshop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    monkeypatch.chdir(workshop)
    monkeypatch.setenv("COLUMNS", "100")

    def called(*words: str) -> Result:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run(list(words))
        return Result(int(ended.value.code or 0), *capsys.readouterr())

    return called


def test_export_writes_and_certifies_each_target(call: Call) -> None:
    shown = call("inspect", "both", "--json").json()
    assert shown["targets"] == {"onnx": ["policy.onnx"], "torch_export": ["policy.pt2"]}
    assert {each["target"] for each in shown["certificate"]["checks"]} == set(shown["targets"])


def test_unknown_target_is_a_usage_error_before_anything_is_loaded(call: Call) -> None:
    result = call("export", "nowhere.py:x", "-o", "x", "--target", "onx")
    assert result.code == 2
    assert "there is no target 'onx'" in result.err
    assert "did you mean 'onnx'?" in result.err


def test_missing_compiler_is_said_on_the_command_line(
    call: Call, workshop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    result = call("export", SOURCE, "-o", "x", "--target", "aoti")
    assert result.code == 2
    assert "RW130 the target aoti needs a C++ compiler" in result.err
    assert not (workshop / "x").exists()


def test_verify_notes_what_was_not_run_and_runs_it_when_trusted(call: Call) -> None:
    noted = call("verify", "both")
    assert noted.code == 0
    assert "RW213 torch_export: was not run: policy.pt2 is code" in noted.out
    trusted = call("verify", "both", "--trust")
    assert trusted.code == 0
    assert "torch_export replay" in trusted.out
    assert "RW213" not in trusted.out


def test_inspect_lists_the_targets(call: Call) -> None:
    result = call("inspect", "both")
    assert "targets    onnx, torch_export" in result.out
    assert "operators  " in result.out
    assert call("inspect", "both", "--json").json()["targets"] == {
        "onnx": ["policy.onnx"],
        "torch_export": ["policy.pt2"],
    }


def test_inspect_reads_a_lone_archive_without_opening_it_as_code(call: Call) -> None:
    result = call("inspect", "both/policy.pt2")
    assert result.code == 0, result.err
    assert "obs" in result.out
    assert "operators" not in result.out


def test_graph_of_onnx_is_shown_node_by_node(call: Call) -> None:
    result = call("inspect", "both", "--graph")
    lines = result.out.splitlines()
    assert "input   obs float32 (batch, 4)" in lines
    assert "output  actions int64 (batch,)" in lines
    weights = [line for line in lines if line.startswith("weight")]
    assert any(line.endswith("float32 (16, 4)") for line in weights)
    nodes = [line for line in lines if " → " in line]
    assert [line.partition("(")[0] for line in nodes][-1] == "ArgMax"
    assert any(line.startswith("Gemm(obs float32 (batch, 4), ") for line in nodes)
    assert all(line.endswith(")") for line in nodes)
    alone = call("inspect", "both/policy.onnx", "--graph")
    assert alone.out == result.out


def test_graph_of_torch_export_is_its_code_and_needs_trust(call: Call) -> None:
    words = ("inspect", "both", "--graph", "--target", "torch_export")
    refused = call(*words)
    assert refused.code == 2
    assert "RW211" in refused.err
    shown = call(*words, "--trust")
    assert shown.code == 0, shown.err
    assert "torch.ops.aten.linear.default(" in shown.out
    assert "torch.ops.aten.argmax.default(" in shown.out
    assert call(*words, "--trust", "--json").json() == {"graph": shown.out.splitlines()}


def test_graph_that_cannot_be_shown_is_explained(call: Call) -> None:
    lone = call("inspect", "both/policy.pt2", "--graph")
    assert lone.code == 2
    assert "pass the folder that the file is in" in lone.err
    other = call("inspect", "both", "--graph", "--target", "aoti")
    assert "the bundle has no aoti target, only onnx, torch_export" in other.err


def test_bench_measures_several_engines_in_turns(call: Call) -> None:
    words = ("bench", "both", "--rounds", "2", "--engine", "onnx", "--engine", "torch_export")
    assert "RW211" in call(*words).err
    measured = call(*words, "--trust", "--json").json()["latency"]
    names = ["Policy.step", "Policy.step (torch_export)", "InferenceSession.run"]
    assert list(measured) == names
    alone = call("bench", "both", "--rounds", "2", *words[6:], "--trust")
    assert alone.code == 0, alone.err
    assert "Policy.step (torch_export)" in alone.out
    assert "a plain run takes" not in alone.out
