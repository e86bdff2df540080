"""The caller's environment and transforms come back as they were, lazy ones still lazy."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torchrl.envs import TransformedEnv
from torchrl.envs.transforms import (
    ActionDiscretizer,
    ActionScaling,
    CatFrames,
    CatTensors,
    Compose,
    DoubleToFloat,
    InitTracker,
    RewardSum,
    StepCounter,
    TimeMaxPool,
    VecNormV2,
)

from roadworthy.frameworks.torchrl.transforms import stages
from tests.adapters.torchrl.transforms.following import pendulum

KEYS = ["frames", "pool", "step_count", "is_init"]


def environment() -> TransformedEnv:
    return TransformedEnv(
        pendulum(),
        Compose(
            DoubleToFloat(),
            VecNormV2(["observation"]),
            CatTensors(out_key="joined", del_keys=False),
            CatFrames(3, -1, in_keys=["joined"], out_keys=["frames"]),
            TimeMaxPool(in_keys=["observation"], out_keys=["pool"], T=2),
            StepCounter(),
            InitTracker(),
            RewardSum(),
            ActionScaling(),
        ),
    )


def seen(value: Any) -> Any:
    """A value that can be compared later, with its identity where it is mutable."""
    if isinstance(value, nn.UninitializedBuffer):
        return id(value), "uninitialized"
    if isinstance(value, torch.Tensor):
        return id(value), value.clone()
    if isinstance(value, dict):
        return {key: seen(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [seen(each) for each in value]
    return id(value) if not isinstance(value, (str, int, float, bool)) else value


def state(env: TransformedEnv) -> list[dict[str, Any]]:
    owners = [env, env.base_env, env.transform, *env.transform.transforms]
    return [{key: seen(value) for key, value in vars(each).items()} for each in owners]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    return bool(one == other)


@pytest.mark.parametrize("used", [False, True], ids=["new", "used"])
def test_nothing_of_the_caller_changes(used: bool) -> None:
    env = environment()
    # Its statistics must exist for the policy that reads them.
    env.transform[1]._maybe_stateful_init(env.base_env.fake_tensordict()["next"])
    with torch.no_grad():
        env.transform[1]._stateful_update(
            env.base_env.fake_tensordict()["next"].select("observation")
        )
    if used:
        env.rollout(5)
    before, random = state(env), torch.random.get_rng_state()
    made = stages(env, in_keys=KEYS, action_key="action")
    assert same(before, state(env))
    assert torch.equal(random, torch.random.get_rng_state())
    shared = {id(each) for each in (*env.transform.buffers(), *env.transform.parameters())}
    assert not shared & {id(each) for stage in made.observation for each in stage.module.buffers()}
    env.rollout(3)


def test_a_compose_of_an_environment_is_read_with_its_environment() -> None:
    env = TransformedEnv(
        pendulum(), Compose(ActionScaling(), CatFrames(2, -1, in_keys=["observation"]))
    )
    given = (env, env.transform)
    first, second = (stages(each, in_keys=["observation"], action_key="action") for each in given)
    assert [s.name for s in first.action] == [s.name for s in second.action] == ["ActionScaling"]
    assert env.transform.container is env


def test_one_transform_is_enough() -> None:
    env = TransformedEnv(pendulum(), ActionDiscretizer(num_intervals=5))
    made = stages(env.transform, in_keys=["observation"], action_key="action")
    assert [stage.name for stage in made.action] == ["ActionDiscretizer"]
