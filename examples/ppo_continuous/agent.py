"""Pendulum with normalised observations and scaled actions, and a squashed Gaussian for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torch import nn
from torchrl.envs import ActionScaling, Compose, GymEnv, StepCounter, TransformedEnv, VecNormV2
from torchrl.modules import ProbabilisticActor, TanhNormal

PERIOD_S = 0.05


def make_env() -> TransformedEnv:
    """Pendulum: the policy sees standard scores, and acts between −1 and 1 instead of ±2 N·m."""
    return TransformedEnv(
        GymEnv("Pendulum-v1"),
        Compose(VecNormV2(in_keys=["observation"]), ActionScaling(), StepCounter()),
    )


def make_policy() -> ProbabilisticActor:
    """An observation → the parameters of a TanhNormal → an action between −1 and 1."""
    network = nn.Sequential(
        nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2),
        NormalParamExtractor(),
    )  # fmt: skip
    return ProbabilisticActor(
        TensorDictModule(network, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        return_log_prob=True,
    )


def save(checkpoint: Path, env: Any, policy: Any) -> None:
    torch.save({"policy": policy.state_dict(), "transform": env.transform.state_dict()}, checkpoint)


def load(checkpoint: Path) -> tuple[Any, Any]:
    """The environment with the statistics of the training, frozen, and the policy."""
    saved = torch.load(checkpoint, weights_only=True)
    env, policy = make_env(), make_policy()
    env.reset()  # VecNorm has no statistics to load into before it has seen an observation
    env.transform.load_state_dict(saved["transform"])
    env.transform[0].freeze()
    policy.load_state_dict(saved["policy"])
    return env, policy.eval()
