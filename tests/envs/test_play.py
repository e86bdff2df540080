"""`rw.play`: episodes of a policy, counted and reproducible, without PyTorch in sight."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import pytest
import torch
from torch import nn

import roadworthy as rw


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    actor = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
    folder = tmp_path_factory.mktemp("play") / "cartpole"
    rw.export(actor, folder, example={"obs": torch.zeros(1, 4)}, action=rw.Argmax())
    return folder


def by_hand(folder: Path, seed: int) -> tuple[float, int]:
    env, policy = gym.make("CartPole-v1"), rw.load(folder)
    observation, _ = env.reset(seed=seed)
    total, steps, done = 0.0, 0, False
    while not done:
        observation, reward, terminated, truncated, _ = env.step(int(policy.act(observation)))
        total, steps, done = total + float(reward), steps + 1, terminated or truncated
    return total, steps


def test_each_episode_is_what_a_loop_by_hand_gives(cartpole: Path) -> None:
    played = rw.play(rw.load(cartpole), "CartPole-v1", 4, seed=7)
    expected = [by_hand(cartpole, 7 + episode) for episode in range(4)]
    assert list(zip(played.returns, played.steps, strict=True)) == expected
    assert str(played) == (
        f"mean return {played.mean_return:.1f} ± "
        f"{torch.tensor(played.returns).std(unbiased=False):.1f} in 4 episodes"
    )


def test_an_episode_ends_at_the_most_steps(cartpole: Path) -> None:
    played = rw.play(rw.load(cartpole), lambda: gym.make("CartPole-v1"), 2, max_steps=3)
    assert played.steps == (3, 3)


def test_no_episode_is_refused(cartpole: Path) -> None:
    with pytest.raises(rw.UsageError, match="episodes must be at least 1, got 0"):
        rw.play(rw.load(cartpole), "CartPole-v1", 0)


def test_an_environment_of_another_shape_is_refused(cartpole: Path) -> None:
    with pytest.raises(rw.UsageError, match="the policy takes rows of"):
        rw.play(rw.load(cartpole), "Pendulum-v1", 1)


def test_the_margin_of_a_verification_is_said_as_on_the_command_line(cartpole: Path) -> None:
    torch.manual_seed(1)
    other = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
    loop = {"env": "CartPole-v1", "episodes": 3}
    generous = rw.verify(cartpole, against=other, **loop, margin=500.0)
    (check,) = [each for each in generous.checks if each.name == "closed loop"]
    assert check.passed
    assert check.facts["returns"]["margin"] == 500.0
    with pytest.raises(rw.UsageError, match=r"margin given without an environment"):
        rw.verify(cartpole, against=other, margin=5.0)
