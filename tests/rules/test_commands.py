"""`roadworthy explain` and `roadworthy doctor`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from roadworthy.cli.app import run

Call = Callable[..., tuple[int, str, str]]

POLICIES = """
import torch
import roadworthy as rw

class Actor(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 2)
        self.calls = 0

    def forward(self, obs):
        self.calls += 1
        if obs.sum() > 0:
            return self.net(obs)
        return self.net(obs) * 2

actor = Actor()
network = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Tanh())
source = rw.Source(network, example={"obs": torch.zeros(1, 4)})
"""


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs the command in this process: exit code, stdout, stderr."""
    monkeypatch.setenv("COLUMNS", "300")

    def called(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            run(list(words))
        printed = capsys.readouterr()
        return int(stopped.value.code or 0), printed.out, printed.err

    return called


def test_explain_prints_the_page_of_a_finding(call: Call) -> None:
    code, out, _ = call("explain", "rw112")
    assert code == 0
    assert "RW112: state that was not declared" in out
    assert 'memory={"hidden": "hidden"}' in out


def test_explain_gives_its_parts_as_json(call: Call) -> None:
    _, out, _ = call("explain", "RW112", "--json")
    assert json.loads(out)["title"] == "state that was not declared"


def test_explain_answers_an_unknown_code_with_the_nearest(call: Call) -> None:
    code, _, err = call("explain", "RW399")
    assert code == 2
    assert "there is no finding 'RW399'" in err
    assert "did you mean" in err


@pytest.fixture
def policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_policies.py").write_text(POLICIES)
    return "my_policies.py"


def test_doctor_prints_what_is_wrong_in_groups_and_fails(call: Call, policies: str) -> None:
    code, out, _ = call("doctor", f"{policies}:actor", "--input", "obs=4")
    assert code == 1
    assert out.splitlines() == [
        "Actor: not ready, 1 to correct",
        "",
        "errors:",
        "RW103 my_policies.py:13 (if obs.sum() > 0:): the code branches on the value of a tensor; "
        "a graph would freeze one side",
        "  → compute both sides and choose: torch.where(condition, a, b)",
        "",
        "warnings:",
        "RW112 Actor.calls at my_policies.py:12 (self.calls += 1): forward writes it, and a later "
        "call may read it; a graph would freeze it",
        "  → declare what persists: memory={'calls': 'calls'}",
        "",
        "next: roadworthy explain RW103",
    ]


def test_doctor_gives_json(call: Call, policies: str) -> None:
    code, out, _ = call("doctor", f"{policies}:source", "--json")
    assert code == 0
    assert json.loads(out) == {"ok": True, "exported": True, "findings": []}


def test_doctor_without_an_input_reads_and_proposes_one(call: Call, policies: str) -> None:
    code, out, _ = call("doctor", f"{policies}:network")
    assert code == 0
    assert "Sequential: no errors; nothing was run" in out
    assert "example={'obs': torch.zeros(1, 4)}" in out


def test_doctor_refuses_to_describe_a_source_twice(call: Call, policies: str) -> None:
    code, out, _ = call("doctor", f"{policies}:source", "--input", "obs=4")
    assert code == 1
    assert "given twice, in the Source and beside it" in out


FIXABLE = """
import torch

class Actor(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 2)
        self.register_buffer("squash", torch.tensor(True))

    def forward(self, obs):
        action = self.net(obs)
        if self.squash:
            action = torch.tanh(action)
        return action

actor = Actor()
"""


def test_doctor_tries_the_repairs_and_names_them(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fixable.py").write_text(FIXABLE)
    words = ["doctor", "fixable.py:actor", "--input", "obs=4", "--json"]
    plain, fixed = (json.loads(call(*words, *more)[1]) for more in ([], ["--fix"]))
    assert not plain["ok"]
    assert "RW103" in [finding["code"] for finding in plain["findings"]]
    assert fixed["ok"]
    assert fixed["exported"]
    assert "RW195" in [finding["code"] for finding in fixed["findings"]]
