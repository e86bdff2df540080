"""Several environments in the batch: exported for any number of rows where the code allows it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import roadworthy as rw
from tests.cli.conftest import roadworthy
from tests.conftest import ExportedEnvironment
from tests.environment.environments import ENVIRONMENTS

Shared = Callable[[str], ExportedEnvironment]


@pytest.fixture
def shared(export_environment_once: Shared) -> Shared:
    """An environment's bundle, written at the first call only."""
    return export_environment_once


@pytest.mark.parametrize("style", ["four_robots", "gru"])
def test_four_robots_are_exported_for_any_number(style: str, shared: Shared) -> None:
    bundle = shared(style).bundle
    signature = bundle.signature
    assert signature.fixed_rows is None
    policy, alone = rw.load(bundle.folder), rw.load(bundle.folder)
    rng = np.random.default_rng(0)
    for _ in range(12):
        raw = {
            port.name: rng.standard_normal(port.sizes({"batch": 7})).astype(port.dtype)
            for port in signature.inputs
        }
        together = policy.step(raw)
        single = alone.step({name: value[3:4] for name, value in raw.items()})
        for name, value in single.items():
            np.testing.assert_allclose(together[name][3:4], value, atol=1e-5)


@pytest.mark.parametrize("style", ["four_robots"])
def test_rows_are_reset_one_by_one_only_when_all_decide(style: str, shared: Shared) -> None:
    bundle = shared(style).bundle
    policy = rw.load(bundle.folder)
    raw = {p.name: np.ones(p.sizes({"batch": 2}), p.dtype) for p in bundle.signature.inputs}
    policy.step(raw)
    with pytest.raises(
        rw.RoadworthyError, match="single rows can be reset only at a tick at which the policy acts"
    ):
        policy.reset(np.array([True, False]))
    policy.step(raw)
    policy.reset(np.array([True, False]))
    assert np.abs(policy.step(raw)["actions"]).min() > 0


def test_rows_that_differ_in_a_constant_are_exported_as_they_are(tmp_path: Path) -> None:
    env, actor = ENVIRONMENTS["four_robots"]()
    env.torque_limit = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    plain = env.apply_actions

    def limited() -> None:
        plain()
        env.torque = torch.minimum(env.torque, env.torque_limit)

    env.apply_actions = limited
    bundle = rw.export_environment(env, actor, tmp_path / "bundle")
    assert bundle.signature.fixed_rows == 4
    assert "env.torque_limit" in bundle.manifest["recipe"]["constants"]


@pytest.mark.parametrize("style", ["pd_four_ticks"])
def test_the_command_line_takes_the_bundle_of_an_environment(
    style: str, shared: Shared, tmp_path: Path
) -> None:
    shutil.copytree(shared(style).bundle.folder, tmp_path / "robot")
    assert "If×1" in roadworthy("inspect", "robot", cwd=tmp_path).out
    assert roadworthy("verify", "robot", cwd=tmp_path).code == 0
    measured = roadworthy("bench", "robot", "--rounds", "1", "--json", cwd=tmp_path)
    assert measured.code == 0, measured.err
    assert measured.json()["latency"]["InferenceSession.run"]["calls"] == 10
