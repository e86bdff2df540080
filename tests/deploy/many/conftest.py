"""Policies in a file, one of which does not load."""

from __future__ import annotations

from pathlib import Path

import pytest

POLICIES = """
import torch
import roadworthy as rw

def made(seed):
    torch.manual_seed(seed)
    layers = torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)
    return rw.Source(
        torch.nn.Sequential(*layers), example={"obs": torch.zeros(1, 4)}, action=rw.Argmax()
    )

def one(): return made(1)
def two(): return made(2)
def three(): return made(3)
def four(): return made(4)
def broken(): raise RuntimeError("no such checkpoint")
"""


@pytest.fixture
def workshop(tmp_path: Path) -> Path:
    (tmp_path / "pol.py").write_text(POLICIES)
    return tmp_path
