"""Closed loop in real Gymnasium environments: what agrees passes, what does not is seen."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

import roadworthy as rw
from roadworthy.runtime.load import load
from roadworthy.verification.originals.module import ModuleOriginal
from roadworthy.verification.rollout import closed_loop


def net(*sizes: int, seed: int = 0) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers: list[nn.Module] = []
        for before, after in itertools.pairwise(sizes):
            layers += [nn.Linear(before, after), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


class Leaning(nn.Module):
    """Pushes to the side to which the pole leans; equal logits when `still` is all it sees."""

    def __init__(self, shift: float = 0.0) -> None:
        super().__init__()
        self.gains = nn.Parameter(torch.tensor([0.1, 0.3, 1.0, 0.5]))
        self.shift = shift

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        lean = obs @ self.gains[:, None]
        return torch.cat([-lean, lean + self.shift], dim=-1)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            self.cell, self.head = nn.GRUCell(3, 8), nn.Linear(8, 1)

    def forward(self, obs: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.cell(obs, h)
        return self.head(h), h


class Noisy(gym.Wrapper[Any, Any, Any, Any]):
    """Rewards and observations with noise that no seed controls."""

    noise = np.random.default_rng()

    def step(self, action: Any) -> Any:
        observation, reward, *rest = self.env.step(action)
        observation = observation + self.noise.normal(0, 0.01, observation.shape)
        return observation.astype(np.float32), reward, *rest


@pytest.fixture(scope="module")
def leaning(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundles") / "leaning"
    rw.export(Leaning(), folder, example={"obs": torch.zeros(1, 4)}, action=rw.Argmax())
    return folder


@pytest.fixture(scope="module")
def recurrent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundles") / "recurrent"
    rw.export(pendulum(), folder)
    return folder


def pendulum() -> rw.Source:
    bounds = rw.ScaleToBounds(low=[-2.0], high=[2.0])
    return rw.Source(
        Recurrent(),
        example={"obs": torch.zeros(1, 3)},
        memory={"h": torch.zeros(1, 8)},
        action=(rw.Tanh(), bounds),
    )


def named(certificate: rw.Certificate, name: str) -> Any:
    (check,) = [each for each in certificate.checks if each.name == name]
    return check


def test_discrete_actions_are_the_same_step_by_step(leaning: Path) -> None:
    certificate = rw.verify(leaning, against=Leaning(), env="CartPole-v1", episodes=6)
    certificate.raise_if_failed()
    teacher, closed = named(certificate, "teacher"), named(certificate, "closed loop")
    assert teacher.steps == closed.steps > 1000
    assert closed.facts["mode"] == "step by step"
    assert closed.facts["returns"]["original"] == closed.facts["returns"]["artifact"]
    assert closed.claim == "6 episodes that the artifact drives are those of the original"
    assert rw.Certificate.from_json(certificate.to_json()) == certificate


def test_a_recurrent_policy_drives_with_a_memory_of_its_own(recurrent: Path) -> None:
    certificate = rw.verify(recurrent, against=pendulum(), env="Pendulum-v1", episodes=3)
    assert named(certificate.raise_if_failed(), "teacher").steps == 600


@pytest.mark.parametrize("vector", ["next", "same"])
def test_a_vectorised_environment_resets_its_rows_by_itself(recurrent: Path, vector: str) -> None:
    mode = (
        gym.vector.AutoresetMode.NEXT_STEP
        if vector == "next"
        else (gym.vector.AutoresetMode.SAME_STEP)
    )

    def make() -> Any:
        short = [lambda n=n: gym.make("Pendulum-v1", max_episode_steps=n) for n in (20, 33, 50)]
        return gym.vector.SyncVectorEnv(short, autoreset_mode=mode)

    certificate = rw.verify(recurrent, against=pendulum(), env=make, episodes=6)
    certificate.raise_if_failed()
    assert named(certificate, "closed loop").facts["mode"] == "step by step"


def test_a_random_world_is_judged_by_its_returns(leaning: Path) -> None:
    world = rw.ClosedLoop(lambda: Noisy(gym.make("CartPole-v1")), episodes=8, margin=500.0)
    certificate = rw.verify(leaning, against=Leaning(), env=world)
    closed = named(certificate.raise_if_failed(), "closed loop")
    assert closed.facts["mode"] == "returns"
    assert closed.claim.startswith("the artifact earns what the original earns: mean return ")


def test_an_artifact_that_earns_less_fails(tmp_path: Path) -> None:
    rw.export(net(4, 2), tmp_path / "b", example={"obs": torch.zeros(1, 4)}, action=rw.Argmax())
    certificate = rw.verify(tmp_path / "b", against=Leaning(), env="CartPole-v1", episodes=5)
    failed = {check.name for check in certificate.checks if not check.passed}
    assert failed == {"fresh steps", "logits", "teacher", "closed loop"}
    with pytest.raises(rw.RoadworthyError) as caught:
        certificate.raise_if_failed()
    assert "closed loop: the artifact earns less than the original: mean return" in str(
        caught.value
    )


def test_ties_are_counted_and_forgiven_and_nothing_else_is(tmp_path: Path) -> None:
    """Where the two logits are equal, a shift by rounding error turns the choice around."""
    shifted = Leaning(shift=1e-7)
    rw.export(shifted, tmp_path / "b", example={"obs": torch.zeros(1, 4)}, action=rw.Argmax())

    def teacher(gap: float, tie_margin: float | None) -> Any:
        original = Leaning(shift=-gap)
        source = rw.Source(original, example={"obs": torch.zeros(1, 4)}, action=rw.Argmax())
        world = rw.ClosedLoop(Resting, episodes=3, tie_margin=tie_margin)
        module = ModuleOriginal(source)
        new = partial(load, tmp_path / "b")
        found, _ = closed_loop(
            new, module, world, seed=0, progress=lambda stage: None,
            yardstick=module.yardstick(new().signature),
        )  # fmt: skip
        return found

    tied = teacher(0.0, None)
    assert tied.passed
    assert tied.facts["ties"] == 15
    assert tied.claim.endswith("that the original drives, 15 ties within the margin")
    apart = teacher(1e-4, None)
    assert not apart.passed
    assert apart.facts["ties"] == 0
    assert teacher(1e-4, 1e-3).passed


# Terms of 0.3 that cancel: equal logits, with the rounding error of what they are made of.
BALANCED = np.array([0.3, 0.9, -0.3, 0.0], np.float32)


class Resting(gym.Env[Any, Any]):
    """Five steps in which nothing moves, and the two sides of the pole weigh the same."""

    observation_space = gym.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, **_: Any) -> Any:
        self.left = 5
        return BALANCED, {}

    def step(self, action: Any) -> Any:
        self.left -= 1
        return BALANCED, 1.0, self.left == 0, False, {}


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(rw.RoadworthyError) as caught:
        call()
    return str(caught.value)


def test_mistakes_in_the_call_are_explained(leaning: Path) -> None:
    alone = refusal(lambda: rw.verify(leaning, env="CartPole-v1"))
    assert "env= compares the artifact with the original, and there is none" in alone
    nowhere = refusal(lambda: rw.verify(leaning, against=Leaning(), episodes=3))
    assert "episodes given without an environment" in nowhere
    one = gym.make("CartPole-v1")
    shared = refusal(lambda: rw.verify(leaning, against=Leaning(), env=lambda: one))
    assert "the function returns the same environment twice" in shared
    alike = refusal(lambda: rw.verify(leaning, against=Leaning(), env=lambda: one, episodes=1))
    assert "the function returns the same environment twice" in alike
    made = refusal(lambda: rw.verify(leaning, against=Leaning(), env=one))
    assert "pass a function that makes it: env=lambda: gym.make(…)" in made
    other = refusal(lambda: rw.verify(leaning, against=Leaning(), env="Pendulum-v1"))
    assert "the policy takes rows of (4,), the environment observes (3,)" in other
    typo = refusal(lambda: rw.verify(leaning, against=Leaning(), env="CartPol-v1"))
    assert "did you mean 'CartPole-v1'?" in typo
