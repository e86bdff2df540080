"""Frames of an action: what environments say about them, and that a difference is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import roadworthy as rw
from roadworthy import demo
from roadworthy.runtime.gym.batch import env_batch
from roadworthy.runtime.gym.frame_skip import frame_skip_of
from roadworthy.spec.port import Port
from roadworthy.spec.signature import Action


class Game(gym.Env[Any, Any]):
    """One that repeats actions itself, as ALE's do."""

    observation_space = gym.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, frameskip: Any = 4) -> None:
        self._frameskip = frameskip


gym.register("roadworthy/Game-v0", Game)


def skipping(env: Any, frames: int) -> Any:
    return gym.wrappers.MaxAndSkipObservation(env, skip=frames)


def policy(frame_skip: int | None) -> rw.Signature:
    return rw.Signature(
        inputs=(Port(name="obs", dtype="float32", shape=("batch", 4)),),
        outputs=(Port(name="actions", dtype="int64", shape=("batch",)),),
        action=Action(output="actions", kind="discrete", sizes=(2,)),
        frame_skip=frame_skip,
    )


@pytest.mark.parametrize(
    ("make", "frames"),
    [
        (lambda: gym.make("CartPole-v1"), None),
        (Game, 4),
        (lambda: gym.make("roadworthy/Game-v0", disable_env_checker=True, frameskip=2), 2),
        (lambda: skipping(gym.make("CartPole-v1"), 3), 3),
        (lambda: skipping(Game(2), 4), 8),
        (lambda: gym.wrappers.TimeLimit(skipping(Game(1), 4), 10), 4),
        (lambda: gym.vector.SyncVectorEnv([Game, Game]), 4),
        (lambda: Game((2, 5)), None),
    ],
)
def test_what_wrappers_and_environments_say_is_multiplied(
    make: Callable[[], Any], frames: int | None
) -> None:
    assert frame_skip_of(make()) == frames


def test_another_number_of_frames_is_refused_with_the_line_to_change() -> None:
    env = gym.make("roadworthy/Game-v0", disable_env_checker=True)
    with pytest.raises(rw.UsageError) as caught:
        env_batch([env], policy(1))
    assert str(caught.value) == (
        "[RW345] env: one action of the policy lasts 1 frames, one step of the environment 4 "
        "(Game 4)\n  → env=lambda: gymnasium.make('roadworthy/Game-v0', frameskip=1); or export "
        "again with frame_skip=4, if training had that"
    )
    env_batch([gym.make("roadworthy/Game-v0", disable_env_checker=True, frameskip=1)], policy(1))
    env_batch([env], policy(None))


def test_wrappers_are_counted_in_the_line_to_change() -> None:
    with pytest.raises(rw.UsageError, match=r"frameskip=2\), with the same wrappers"):
        env_batch([skipping(Game(1), 4)], policy(8))
    with pytest.raises(rw.UsageError, match="let one step last 3 frames"):
        env_batch([skipping(Game(1), 4)], policy(3))


def test_frames_that_are_drawn_are_refused() -> None:
    with pytest.raises(rw.UsageError, match=r"a random number \(Game draws 2 to 4 frames\)"):
        env_batch([Game((2, 5))], policy(4))


def test_an_environment_that_says_nothing_is_not_refused() -> None:
    env_batch([gym.make("CartPole-v1")], policy(4))


def test_the_environment_of_a_checkpoint_says_it_for_the_policy() -> None:
    source = rw.to_source(
        Path(demo.__file__).parent / "ppo_cartpole.zip",
        env=lambda: skipping(gym.make("CartPole-v1"), 4),
        assume={"vecnormalize": "none"},
    )
    assert isinstance(source, rw.Source)
    assert source.frame_skip == 4
