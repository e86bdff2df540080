"""Checkpoints that the installed frameworks write act as those frameworks answer."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.checkpoints.comparing import TOLERANCE, apart
from tests.checkpoints.recording import record

pytestmark = [pytest.mark.framework, pytest.mark.filterwarnings("ignore")]
INSTALLED = {"rsl_rl": "rsl-rl-lib", "skrl": "skrl", "rl_games": "rl-games"}


@pytest.fixture(autouse=True)
def same_weights() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


@pytest.mark.parametrize("framework", INSTALLED)
def test_every_file_acts_as_the_framework_answers(framework: str, tmp_path: Path) -> None:
    writer = importlib.import_module(f"tests.checkpoints.writers.{framework}")
    version = importlib.metadata.version(INSTALLED[framework])
    found = {case.name: apart(record(case, tmp_path / case.name)) for case in writer.cases(version)}
    assert len(found) >= 8
    assert {name: far for name, far in found.items() if not far <= TOLERANCE} == {}
