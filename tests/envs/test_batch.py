"""Stages: which row ends, which begins anew, and what each of them sees."""

from __future__ import annotations

import itertools
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from roadworthy.runtime.gym.batch import EnvStep, env_batch
from roadworthy.spec.port import Port
from roadworthy.spec.signature import Signature

PENDULUM = Signature(
    inputs=(Port(name="obs", dtype="float32", shape=("batch", 3)),),
    outputs=(Port(name="actions", dtype="float32", shape=("batch", 1)),),
)
LENGTHS = (3, 5)
PUSH = np.full((2, 1), 0.5, np.float32)


def pendulum(length: int) -> Any:
    return gym.make("Pendulum-v1", max_episode_steps=length)


def played(mode: gym.vector.AutoresetMode, steps: int = 12) -> list[EnvStep]:
    makers = [lambda n=n: pendulum(n) for n in LENGTHS]
    made = env_batch([gym.vector.SyncVectorEnv(makers, autoreset_mode=mode)], PENDULUM)
    made.reset(7)
    scenes = [made.step(PUSH) for _ in range(steps)]
    made.close()
    return scenes


def test_a_vector_that_resets_at_the_next_step_begins_one_step_after_the_end() -> None:
    scenes = played(gym.vector.AutoresetMode.NEXT_STEP)
    for before, after in itertools.pairwise(scenes):
        np.testing.assert_array_equal(after.begins, before.ended)
        # The environment itself pays nothing for the step in which it resets.
        np.testing.assert_array_equal(after.rewards == 0, after.begins)
    assert [int(scene.begins.sum()) for scene in scenes].count(1) >= 3


def test_a_vector_that_resets_in_the_same_step_begins_with_the_end() -> None:
    scenes = played(gym.vector.AutoresetMode.SAME_STEP)
    for scene in scenes:
        np.testing.assert_array_equal(scene.begins, scene.ended)
    ended = [step for step, scene in enumerate(scenes, 1) if scene.ended[0]]
    assert ended == [3, 6, 9, 12]


def test_plain_environments_have_seeds_of_their_own_and_stand_still_at_the_end() -> None:
    made = env_batch([pendulum(length) for length in LENGTHS], PENDULUM)
    begun = made.reset(7)["obs"]
    for row, length in enumerate(LENGTHS):
        np.testing.assert_array_equal(begun[row], pendulum(length).reset(seed=7 + row)[0])
    scenes = [made.step(PUSH) for _ in range(5)]
    assert [scene.ended.tolist() for scene in scenes] == [
        [False, False], [False, False], [True, False], [True, False], [True, True],
    ]  # fmt: skip
    np.testing.assert_array_equal(scenes[2].inputs["obs"][0], scenes[4].inputs["obs"][0])
    assert scenes[3].rewards[0] == 0
    assert scenes[3].rewards[1] != 0
    assert not any(scene.begins.any() for scene in scenes)


class Named(gym.Env[Any, Any]):
    """Observations by name, in float64, and codes for actions."""

    observation_space = gym.spaces.Dict(
        {"q": gym.spaces.Box(-1, 1, (2,)), "goal": gym.spaces.Box(-1, 1, (1,))}
    )
    action_space = gym.spaces.Discrete(2)

    def reset(self, **_: Any) -> Any:
        return {"goal": np.array([0.5]), "q": np.array([0.1, 0.2])}, {}

    def step(self, action: Any) -> Any:
        assert type(action) is int
        return {"goal": np.array([0.5]), "q": np.array([0.3, 0.4])}, 1.0, True, False, {}


def test_named_observations_reach_their_ports_in_the_ports_type() -> None:
    signature = Signature(
        inputs=(
            Port(name="q", dtype="float32", shape=("batch", 2)),
            Port(name="goal", dtype="float32", shape=("batch", 1)),
        ),
        outputs=(Port(name="actions", dtype="int64", shape=("batch",)),),
    )
    made = env_batch([Named()], signature)
    inputs = made.reset(0)
    assert {name: value.dtype.name for name, value in inputs.items()} == {
        "q": "float32",
        "goal": "float32",
    }
    assert made.step(np.array([1])).inputs["q"] == pytest.approx(np.array([[0.3, 0.4]]))
