"""The policy and its environment together: transforms in the artifact, episodes in closed loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.envs import (
    ActionScaling,
    CatFrames,
    Compose,
    GymEnv,
    ObservationNorm,
    StepCounter,
    TransformedEnv,
)
from torchrl.envs.utils import set_exploration_type
from torchrl.modules import Actor, NormalParamExtractor, ProbabilisticActor, TanhNormal

import roadworthy as rw
from roadworthy.errors import UsageError
from tests.adapters.torchrl.policies import exported, seeded


def transformed() -> TransformedEnv:
    return TransformedEnv(
        GymEnv("Pendulum-v1"),
        Compose(
            ObservationNorm(loc=0.1, scale=0.5, in_keys=["observation"], out_keys=["normed"]),
            CatFrames(3, dim=-1, in_keys=["normed"], out_keys=["stacked"]),
            ActionScaling(),
            StepCounter(),
        ),
    )


def test_artifact_acts_in_the_bare_environment_as_torchrl_does(
    tmp_path: Path,
) -> None:
    env = transformed()
    made = seeded(Actor, nn.Sequential(nn.Linear(9, 1), nn.Tanh()), in_keys=["stacked"])
    policy = exported(made, tmp_path / "p", env=env)
    assert [port.name for port in policy.signature.inputs] == ["observation"]
    assert str(policy.signature.action) == "continuous in [-2.0, 2.0]"
    env.set_seed(3)
    with torch.no_grad(), set_exploration_type("deterministic"):
        episode = env.rollout(40, made)
    for observation, action in zip(
        episode["observation"].numpy(), episode["action"].numpy(), strict=True
    ):
        # The policy acts in [-1, 1], the pendulum takes torques up to 2.
        np.testing.assert_allclose(policy.act(observation), 2 * action, atol=1e-5)


def test_random_policy_is_verified_in_closed_loop(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(3, 2), NormalParamExtractor())
    made = seeded(
        lambda: ProbabilisticActor(
            TensorDictModule(net, ["observation"], ["loc", "scale"]),
            in_keys=["loc", "scale"],
            distribution_class=TanhNormal,
            distribution_kwargs={"low": -2.0, "high": 2.0},
        )
    )
    env = GymEnv("Pendulum-v1")
    rw.export(made, tmp_path / "p", env=env, exploration="random")
    described = rw.to_source(made, env=env, exploration="random")
    loop = rw.ClosedLoop("Pendulum-v1", episodes=2, max_steps=50)
    certificate = rw.verify(tmp_path / "p", against=described, env=loop).raise_if_failed()
    assert {check.name for check in certificate.checks} >= {"teacher", "closed loop"}
    # TorchRL's own environment only says what the policy sees: no episodes would be played in it.
    with pytest.raises(UsageError, match="no episodes are played in this environment"):
        rw.verify(tmp_path / "p", against=made, env=env, exploration="random", episodes=3)
