"""Actions that choose, or change shape, on their way to the environment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torchrl.envs import EnvBase, GymEnv
from torchrl.envs.transforms import (
    ActionDiscretizer,
    Compose,
    DiscreteActionProjection,
    FlattenAction,
    UnsqueezeTransform,
)

from tests.adapters.torchrl.transforms.following import follow

STRATEGY = ActionDiscretizer.SamplingStrategy


def cart_pole() -> EnvBase:
    return GymEnv("CartPole-v1")


CASES: dict[str, Callable[[], Any]] = {
    "categorical": lambda: ActionDiscretizer(num_intervals=5),
    "low": lambda: ActionDiscretizer(num_intervals=5, sampling=STRATEGY.LOW),
    "high one-hot": lambda: ActionDiscretizer(
        num_intervals=5, sampling=STRATEGY.HIGH, categorical=False
    ),
    "another key": lambda: ActionDiscretizer(num_intervals=5, out_action_key="action"),
    "intervals for each": lambda: ActionDiscretizer(num_intervals=torch.tensor([7])),
    "intervals for each, one-hot": lambda: ActionDiscretizer(
        num_intervals=torch.tensor([7]), categorical=False
    ),
    "flattened": lambda: Compose(
        UnsqueezeTransform(-1, in_keys=[], in_keys_inv=["action"]), FlattenAction()
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_actions_reach_the_environment_as_torchrl_sends_them(name: str) -> None:
    made = follow(CASES[name], in_keys=["observation"], steps=12)
    assert made.action
    assert made.outputs == ("action",)


def test_a_discretized_action_survives_the_export(tmp_path: Path) -> None:
    follow(CASES["categorical"], in_keys=["observation"], steps=12, folder=tmp_path / "bundle")


def test_a_projection_that_projects_nothing_is_exact() -> None:
    def chain() -> Compose:
        return Compose(DiscreteActionProjection(2, 2))

    made = follow(chain, in_keys=["observation"], base=cart_pole, steps=12)
    assert [stage.name for stage in made.action] == ["DiscreteActionProjection"]
