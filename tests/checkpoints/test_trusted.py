"""`trust` compares a checkpoint of rsl_rl with the model that rsl_rl itself makes of it."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest
import torch

import roadworthy as rw
from tests.checkpoints.recording import record
from tests.checkpoints.writers import rsl_rl

pytestmark = [pytest.mark.framework, pytest.mark.filterwarnings("ignore")]


def test_models_of_rsl_rl_answer_as_the_rebuilt_ones(tmp_path: Path) -> None:
    torch.manual_seed(0)
    version = importlib.metadata.version("rsl-rl-lib")
    for case in rsl_rl.cases(version):
        recorded = record(case, tmp_path / case.name)
        assume = {n: v for n, v in recorded.assume.items() if n != "critic_obs"}
        source = rw.to_source(recorded.checkpoint, assume=assume, trust=True)
        assert source.rewritten is not None, case.name
        rows = recorded.actions.shape[1]
        memory = {name: value.repeat(1, rows, 1) for name, value in source.memory.items()}
        given = {name: torch.from_numpy(value[0]) for name, value in recorded.inputs.items()
                 if name in source.example}  # fmt: skip
        with torch.no_grad():
            action = source.rewritten.module(**given, **memory)["action"]
        torch.testing.assert_close(action, torch.from_numpy(recorded.actions[0]))


def test_a_recurrent_checkpoint_is_certified_against_the_framework(tmp_path: Path) -> None:
    version = importlib.metadata.version("rsl-rl-lib")
    case = next(each for each in rsl_rl.cases(version) if each.name.startswith("lstm"))
    recorded = record(case, tmp_path / "run")
    said = {"assume": {n: v for n, v in recorded.assume.items() if n != "critic_obs"}}
    rw.export(recorded.checkpoint, tmp_path / "bundle", **said)
    rw.verify(
        tmp_path / "bundle", against=recorded.checkpoint, trust=True, **said
    ).raise_if_failed()
