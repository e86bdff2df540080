"""Every example and every benchmark runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import roadworthy as rw

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
WORDS = {
    "walker": "FL_hip",
    "recurrent": "a reset row is fresh:  True",
    "masked_discrete": "allowed 1 of 4",
    "isaaclab_dropin": "['obs', 'h_in', 'c_in'] → ['actions', 'h_out', 'c_out']",
    "on_the_robot": "torch imported: False",
}


def run(*command: str, cwd: Path) -> str:
    result = subprocess.run(
        [sys.executable, *command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_says_what_it_promises(example: Path, tmp_path: Path) -> None:
    rw.export(
        rw.Source(torch.nn.Linear(4, 2), example={"obs": torch.zeros(1, 4)}, period_s=0.005),
        tmp_path / "demo-bundle",
    )
    assert WORDS[example.stem] in run(str(example), cwd=tmp_path)


@pytest.mark.parametrize("name", ["step_latency", "start_up", "environment"])
def test_a_benchmark_runs_and_writes_its_result(name: str, tmp_path: Path) -> None:
    script, out = ROOT / "benchmarks" / f"{name}.py", tmp_path / "result.json"
    run(str(script), "--rounds", "2", "--out", str(out), cwd=tmp_path)
    assert json.loads(out.read_text())["machine"]["cores"] >= 1


def test_the_stored_benchmark_results_describe_their_machine() -> None:
    stored = sorted((ROOT / "benchmarks" / "results").glob("*.json"))
    assert [path.stem for path in stored] == ["environment", "start_up", "step_latency"]
    for path in stored:
        assert {"cpu", "cores", "torch"} <= set(json.loads(path.read_text())["machine"])
