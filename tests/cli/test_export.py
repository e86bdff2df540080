from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from roadworthy.cli.app import run
from tests.cli.conftest import roadworthy

COUNTING = """
import torch

class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 2)
        self.steps = 0

    def forward(self, obs):
        self.steps += 1
        return self.net(obs) * (self.steps < 10**6)

actor = Counting()
"""
ACTING = """
import torch

class Acting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 2)

    def forward(self, obs):
        raise NotImplementedError

    def act(self, obs, deterministic=False):
        mean = self.net(obs)
        return mean if deterministic else torch.normal(mean, 1.0)

torch.manual_seed(0)
model = Acting()
"""
WARNED = """
import torch

class Warned(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.drop = torch.nn.Linear(4, 2), torch.nn.Dropout(0.5)

    def forward(self, obs):
        return self.drop(self.net(obs))

actor = Warned()
"""


def test_export_shows_signature_certificate_and_the_next_command(workshop: Path) -> None:
    result = roadworthy(
        "export", "my_policy.py:actor", "--input", "obs=4", "-o", "shown", cwd=workshop
    )
    assert result.code == 0, result.err
    assert "float32 (batch, 4)" in result.out
    assert "Certificate passed" in result.out
    assert "next: roadworthy inspect shown" in result.out
    assert (workshop / "shown" / "policy.onnx").is_file()


def test_export_takes_memory_and_outputs_and_prints_json(workshop: Path) -> None:
    result = roadworthy(
        "export", "my_policy.py:recurrent", "--input", "obs=4", "--memory", "h=hidden",
        "--output", "actions", "--output", "-", "--opset", "18", "-o", "gru", "--json",
        cwd=workshop,
    )  # fmt: skip
    assert result.code == 0, result.out
    data = result.json()
    assert [port["name"] for port in data["signature"]["outputs"]] == ["actions"]
    assert [memory["name"] for memory in data["signature"]["memory"]] == ["h"]
    assert data["certificate"]["passed"] is True


def test_export_takes_a_method_and_constants(workshop: Path) -> None:
    (workshop / "acting.py").write_text(ACTING)
    words = ("export", "acting.py:model", "--input", "obs=4", "-o", "acting", "--json")
    refused = roadworthy(*words, cwd=workshop)
    assert refused.code == 2
    assert "method='act'" in refused.out
    refused = roadworthy(*words, "--method", "act", cwd=workshop)
    assert refused.code == 2
    assert "RW111" in refused.out
    words = (*words, "--method", "act", "--constant", "deterministic=True")
    assert roadworthy(*words, cwd=workshop).code == 0
    against = ("verify", "acting", "--against", "acting.py:model")
    assert roadworthy(*against, cwd=workshop).code == 0


def test_what_is_ignored_is_taken_and_shown(workshop: Path) -> None:
    (workshop / "counting.py").write_text(COUNTING)
    words = ("export", "counting.py:actor", "--input", "obs=4", "-o", "ignoring")
    refused = roadworthy(*words, cwd=workshop)
    assert refused.code == 2
    assert "RW112 Counting.steps: a call writes it, and a later call reads it" in refused.err
    assert roadworthy(*words, "--ignore", "steps", cwd=workshop).code == 0
    shown = roadworthy("inspect", "ignoring", cwd=workshop)
    assert "IGNORED    steps" in shown.out
    assert roadworthy("inspect", "ignoring", "--json", cwd=workshop).json()["ignored"] == ["steps"]


def test_warnings_of_a_successful_export_are_printed(workshop: Path) -> None:
    (workshop / "warned.py").write_text(WARNED)
    result = roadworthy("export", "warned.py:actor", "--input", "obs=4", "-o", "w", cwd=workshop)
    assert result.code == 0, result.err
    assert "RW160 Warned.drop: 1 part(s) were in training mode" in result.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["my_polcy.py:actor", "--input", "obs=4"], "did you mean 'my_policy.py'?"),
        (["my_policy.py:actr", "--input", "obs=4"], "did you mean 'actor'?"),
        (["my_policy.py", "--input", "obs=4"], "with NAME one of actor, cartpole, recurrent"),
        (["my_policy.py:actor"], "--input obs=48 (the shape of one row)"),
        (["my_policy.py:actor", "--input", "obs=5"], "forward raised RuntimeError"),
        (["my_policy.py:actor", "--input", "obs"], "cannot read --input 'obs'"),
        (["my_policy.py:actor", "--input", "obs=float33:4"], "cannot read --input"),
        (["my_policy.py:actor", "--input", "obs=4", "--memory", "h"], "cannot read --memory 'h'"),
        (["my_policy.py:actor", "--input", "obs=4", "--constant", "mask"],
         "cannot read --constant 'mask'"),
        (["my_policy.py:actor", "--input", "obs=4", "--method", "forwards"],
         "did you mean 'forward'?"),
        (["my_policy.py:actor", "--input", "obs=4", "--opset", "11"], "opset 11 is not supported"),
        (["my_policy.py:number", "--input", "obs=4"], "expected a torch.nn.Module, got int"),
        (["my_policy.py:Recurrent", "--input", "obs=4"], "is a class, not a trained policy"),
        (["cartpole/policy.onnx", "--input", "obs=4"], "no installed adapter can read cartpole"),
        (["my_policy.py:broken"], "RuntimeError: no such checkpoint"),
        (["my_policy.py:cartpole", "--input", "obs=4"], "given twice, in the Source and beside it"),
        (["no.such.module:actor", "--input", "obs=4"], "No module named 'no'"),
        (["my_policy.py:recurrent", "--input", "obs=4", "--output", "a", "--output", "b"],
         "memory={'hidden': 'hidden'}"),
    ],
)  # fmt: skip
def test_a_mistake_is_explained_and_leaves_nothing(
    workshop: Path,
    words: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(workshop)
    monkeypatch.setenv("COLUMNS", "300")
    with pytest.raises(SystemExit) as stopped:
        run(["export", *words, "-o", "mistake"])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
    assert not (workshop / "mistake").exists()


def test_a_folder_with_other_files_is_left_alone(workshop: Path) -> None:
    (workshop / "thesis").mkdir(exist_ok=True)
    (workshop / "thesis" / "chapter.txt").write_text("years of work")
    result = roadworthy("export", "my_policy.py:cartpole", "-o", "thesis", cwd=workshop)
    assert result.code == 2
    assert "chapter.txt" in result.err
    assert (workshop / "thesis" / "chapter.txt").read_text() == "years of work"


def test_an_error_with_json_is_json(workshop: Path) -> None:
    result = roadworthy("export", "my_policy.py:actor", "-o", "x", "--json", cwd=workshop)
    assert result.code == 2
    assert result.json()["error"][0]["code"] == "RW001"


def test_a_failed_certificate_exits_with_one_unless_it_is_waived(tmp_path: Path) -> None:
    (tmp_path / "mixing.py").write_text(
        "import torch\n"
        "class Mixing(torch.nn.Module):\n"
        "    def forward(self, obs):\n"
        "        return obs - obs.mean(0)\n"
        "actor = Mixing()\n"
    )
    words = ["export", "mixing.py:actor", "--input", "obs=3", "-o", "mixing"]
    refused = roadworthy(*words, cwd=tmp_path)
    assert refused.code == 1
    assert "RW300 batch: actions" in refused.err
    assert not (tmp_path / "mixing").exists()
    waived = roadworthy(*words, "--allow-uncertified", cwd=tmp_path)
    assert waived.code == 0
    assert "Certificate FAILED" in waived.out
    assert "WAIVED" in roadworthy("inspect", "mixing", cwd=tmp_path).out


SLOW_POLICY = """
import time
import torch

class Slow(torch.nn.Module):
    def forward(self, obs):
        time.sleep(0.05)
        return obs * 2

actor = Slow()
"""


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW_POLICY)
    process = subprocess.Popen(
        [sys.executable, "-m", "roadworthy", "export", "slow.py:actor", "--input", "obs=3",
         "-o", "cut"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # As in a terminal; a shell's background jobs, and their children, ignore the signal.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL) and None,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    # The file is there, and 256 slow steps of the original are being recorded.
    while not list(tmp_path.glob(".cut.partial-*/policy.onnx")) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.5)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "interrupted; nothing half-written was left behind" in err
    assert "Traceback" not in err
    left = [path.name for path in tmp_path.iterdir() if path.name != "__pycache__"]
    assert left == ["slow.py"]
