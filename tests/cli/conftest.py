"""A policy file and its bundle, made once, and a way to call the real command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

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
    run = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-m", "roadworthy", *words],
        cwd=cwd, capture_output=True, text=True,
        env={
            "COLUMNS": str(columns), "PATH": "", "PYTHONIOENCODING": "utf-8",
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        },
    )  # fmt: skip
    return Result(run.returncode, run.stdout, run.stderr)


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with my_policy.py and a bundle of its `cartpole`."""
    folder = tmp_path_factory.mktemp("workshop")
    (folder / "my_policy.py").write_text(POLICY_FILE)
    made = roadworthy("export", "my_policy.py:cartpole", "-o", "cartpole", cwd=folder)
    assert made.code == 0, made.err
    return folder
