"""Closed loops in six Gymnasium environments, six policies each: no false alarm, none missed.

Where actions are numbers, only what the closed loop itself compares is asked: the open-loop checks
would see a moved weight before the first episode.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw
from roadworthy.capture.capture import capture
from roadworthy.runtime.load import load
from roadworthy.verification.originals.module import original_of
from roadworthy.verification.rollout import closed_loop

# Old packages among what the simulators import warn about each other.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.framework,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
SEEDS = range(6)


@dataclass(frozen=True)
class World:
    """An environment, the sizes of its policy, and how far its actions go; 0 for choices."""

    name: str
    observations: int
    actions: int
    reach: float
    max_steps: int = 120


WORLDS = (
    World("Pendulum-v1", 3, 1, 2.0),
    World("Acrobot-v1", 6, 3, 0.0, 200),
    World("LunarLander-v3", 8, 4, 0.0),
    World("HalfCheetah-v5", 17, 6, 1.0),
    World("Hopper-v5", 11, 3, 1.0),
    World("Walker2d-v5", 17, 6, 1.0),
)


class Actor(nn.Module):
    def __init__(self, world: World, gain: float = 1.0) -> None:
        super().__init__()
        self.gain = gain
        self.net = nn.Sequential(
            nn.Linear(world.observations, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(),
            nn.Linear(64, world.actions),
        )  # fmt: skip

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs) * self.gain


def source(world: World, seed: int, gain: float = 1.0) -> rw.Source:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = Actor(world, gain)
    steps: Any = rw.Argmax()
    if world.reach:
        reach = [world.reach] * world.actions
        steps = (rw.Tanh(), rw.ScaleToBounds(low=[-each for each in reach], high=reach))
    return rw.Source(module, example={"obs": torch.zeros(1, world.observations)}, action=steps)


def one_moved(source: rw.Source) -> rw.Source:
    """The source with one weight of its last layer changed by 5 %, in place: the largest."""
    weight = source.module.get_parameter("net.4.weight")
    with torch.no_grad():
        weight.view(-1)[weight.abs().argmax()] *= 1.05
    return source


def judged(folder: Path, beside: rw.Source, loop: rw.ClosedLoop, seed: int) -> dict[str, Any]:
    """The checks of the closed loop by name."""
    new = partial(load, folder)
    original = original_of(beside, capture(beside))
    checks = closed_loop(
        new, original, loop, seed=seed, progress=lambda stage: None,
        yardstick=original.yardstick(new().signature),
    )  # fmt: skip
    return {check.name: check for check in checks}


def seeded(env: Callable[[], Any], world: World) -> rw.ClosedLoop:
    return rw.ClosedLoop(env, episodes=6, max_steps=world.max_steps)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_the_artifact_is_never_accused_and_a_wrong_one_always(
    world: World, seed: int, tmp_path: Path
) -> None:
    rw.export(source(world, seed), tmp_path / "b")
    loop = seeded(lambda: gym.make(world.name), world)
    right = judged(tmp_path / "b", source(world, seed), loop, seed)
    assert [name for name, check in right.items() if not check.passed] == []
    if world.reach:
        wrong = judged(tmp_path / "b", one_moved(source(world, seed)), loop, seed)
        assert not wrong["teacher"].passed
    else:  # so little turns few choices: what is behind them shows it
        certificate = rw.verify(
            tmp_path / "b", against=one_moved(source(world, seed)), env=loop, seed=seed
        )
        failed = {check.name for check in certificate.checks if not check.passed}
        assert failed & {"logits", "teacher"}


class AroundZero(gym.RewardWrapper[Any, Any]):
    """Rewards whose sum is near zero: 5 % of it are nothing."""

    def reward(self, reward: Any) -> float:
        return float(reward) + 0.6


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("wrapped", [False, True], ids=["as it is", "mean return near zero"])
def test_chaos_is_no_accusation(wrapped: bool, seed: int, tmp_path: Path) -> None:
    """Gains of 50 saturate every joint: rounding decides where the cheetah runs."""
    world = WORLDS[3]
    rw.export(source(world, seed, gain=50.0), tmp_path / "b")

    def make() -> Any:
        env = gym.make(world.name)
        return AroundZero(env) if wrapped else env

    found = judged(tmp_path / "b", source(world, seed, gain=50.0), seeded(make, world), seed)
    assert [check.claim for check in found.values() if not check.passed] == []
