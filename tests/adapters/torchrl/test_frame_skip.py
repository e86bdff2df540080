"""TorchRL makes games with one frame for each action: the signature says so."""

from __future__ import annotations

import ale_py
import gymnasium as gym
import pytest
from torchrl.envs import FrameSkipTransform, GymEnv, TransformedEnv

import roadworthy as rw
from roadworthy.frameworks.torchrl.live import frame_skip
from roadworthy.runtime.gym.frame_skip import frame_skip_of, refuse_other_frame_skip

PONG = "ALE/Pong-v5"


def test_all_layers_are_multiplied() -> None:
    gym.register_envs(ale_py)
    assert frame_skip(None) is None
    assert frame_skip(GymEnv("CartPole-v1")) is None
    assert frame_skip(GymEnv("CartPole-v1", frame_skip=3)) == 3
    assert frame_skip(TransformedEnv(GymEnv("CartPole-v1"), FrameSkipTransform(4))) == 4
    assert frame_skip(GymEnv(PONG)) == 1
    assert frame_skip(TransformedEnv(GymEnv(PONG, frame_skip=2), FrameSkipTransform(4))) == 8


def test_pong_of_torchrl_and_of_gymnasium_are_two_games() -> None:
    gym.register_envs(ale_py)
    env = gym.make(PONG)
    assert frame_skip_of(env) == 4
    with pytest.raises(rw.UsageError, match=r"gymnasium.make\('ALE/Pong-v5', frameskip=1\)"):
        refuse_other_frame_skip(frame_skip(GymEnv(PONG)), env)
    refuse_other_frame_skip(frame_skip(GymEnv(PONG)), gym.make(PONG, frameskip=1))
