"""One policy in every target of the table: exported once, because compiling takes a while."""

from __future__ import annotations

import os
import tempfile

import pytest
import torch

import roadworthy as rw
from roadworthy.spec import targets
from tests.environment.environments import ENVIRONMENTS
from tests.recurrent import Lstm


def chooser() -> rw.Source:
    """A recurrent network that chooses: floats and whole numbers, memory, any batch."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        memory = {"h": torch.zeros(1, 1, 16), "c": torch.zeros(1, 1, 16)}
        example = {"obs": torch.randn(1, 6)}
        return rw.Source(Lstm(), example=example, memory=memory, action=rw.Argmax())


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> rw.Bundle:
    """The chooser in every target; making it leaves this process and its folders as they were."""
    scratch = tmp_path_factory.mktemp("scratch")
    folder = tmp_path_factory.mktemp("whole") / "chooser"
    environment, random, threads = dict(os.environ), torch.get_rng_state(), torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(scratch))
        made = rw.export(chooser(), folder, targets=targets.names())
    # torch.export, which captures, makes this one; what was compiled must not be in it.
    left = [path for path in scratch.rglob("*") if path.is_file()]
    assert left == []
    # onnxruntime reads the second when it is imported, which an earlier test may have done.
    usual = {"TORCHINDUCTOR_CACHE_DIR": None, "ORT_DISABLE_TELEMETRY": "1"}
    assert {**os.environ, **usual} == {**environment, **usual}
    assert torch.equal(torch.get_rng_state(), random)
    assert torch.get_num_threads() == threads
    return made


@pytest.fixture(scope="session")
def two_rates(tmp_path_factory: pytest.TempPathFactory) -> rw.Bundle:
    """An environment that decides at every fourth tick, in every target."""
    env, actor = ENVIRONMENTS["pd_four_ticks"]()
    folder = tmp_path_factory.mktemp("two_rates") / "pd"
    return rw.export_environment(env, actor, folder, targets=targets.names())
