"""A policy file and its bundle, made once, and a way to call the real command."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from roadworthy.cli.app import run

POLICY_FILE = """
import torch
import roadworthy as rw

torch.manual_seed(0)
actor = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))

def cartpole():
    return rw.Source(actor, example={"obs": torch.zeros(1, 4)}, action=rw.Argmax())

class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head, self.hidden = torch.nn.GRUCell(4, 8), torch.nn.Linear(8, 2), None

    def forward(self, obs):
        self.hidden = self.cell(obs, self.hidden)
        return self.head(self.hidden), self.hidden.sum(-1)

recurrent = Recurrent()

def broken():
    raise RuntimeError("no such checkpoint")

number = 3
"""


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


def roadworthy(*words: str, cwd: Path, columns: int = 100) -> Result:
    """The command as its entry point runs it, in this process: PyTorch is imported once."""
    out, err = io.StringIO(), io.StringIO()
    known = set(sys.modules)
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.chdir(cwd)
        patch.setenv("COLUMNS", str(columns))
        patch.setattr(sys, "argv", ["roadworthy", *words])
        code = 0
        try:
            run()
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 0
    # What a user's file brought in must not be there when another file is loaded.
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(cwd)):
            del sys.modules[name]
    return Result(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with my_policy.py and a bundle of its `cartpole`."""
    folder = tmp_path_factory.mktemp("workshop")
    (folder / "my_policy.py").write_text(POLICY_FILE)
    made = roadworthy("export", "my_policy.py:cartpole", "-o", "cartpole", cwd=folder)
    assert made.code == 0, made.err
    return folder
