"""evaluate says no when the file is not the environment, and where they part."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from roadworthy.compat.exploy import SessionWrapper, evaluate, export_environment_as_onnx
from roadworthy.environment import ExportableEnvironment, Memory
from roadworthy.errors import UsageError
from tests.environment.robot import feedforward
from tests.environment.robots import Pd, PdFourTicks
from tests.environment.test_contract import tutorial


def verdict(env: ExportableEnvironment, folder: Path, actor: torch.nn.Module) -> bool:
    session = SessionWrapper(folder, "policy.onnx", actor=actor)
    with torch.inference_mode():
        passed, _ = evaluate(env, env.context_manager(), session, num_steps=20)
    return passed


@pytest.fixture(scope="module")
def walking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of `PdFourTicks` with the actor that `feedforward` gives it: always the same one."""
    folder = tmp_path_factory.mktemp("walking")
    env = PdFourTicks()
    export_environment_as_onnx(env, feedforward(env), folder)
    return folder


@pytest.fixture(scope="module")
def tutored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the tutorial's environment and actor, which are always the same."""
    folder = tmp_path_factory.mktemp("tutored")
    export_environment_as_onnx(*tutorial(), folder)
    return folder


def test_a_stale_actor_is_noticed(tutored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    env, actor = tutorial()
    assert verdict(env, tutored, actor)
    assert "first divergence" not in capsys.readouterr().out
    with torch.no_grad():
        actor._net[4].bias[1] += 0.5
    assert not verdict(env, tutored, actor)
    said = capsys.readouterr().out
    assert "first divergence: actions[0][1] at step 0, tick 0: environment " in said
    assert ", file " in said
    assert "likely causes:" in said


def test_an_observation_that_differs_is_named(
    tutored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env, actor = tutorial()

    class Shifted(type(env.env)):
        def compute_obs(self) -> Tensor:
            return super().compute_obs() + torch.tensor([0.0] * 5 + [0.25] + [0.0] * 4)

    env.env.__class__ = Shifted
    assert not verdict(env, tutored, actor)
    assert "first divergence: obs[bar_1] at step 0, tick 0: environment " in capsys.readouterr().out


class StartsElsewhere(PdFourTicks):
    def begin(self) -> None:
        super().begin()
        self.last[:] = 0.9


def test_a_memory_that_starts_elsewhere_is_noticed(
    walking: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = PdFourTicks()
    actor = feedforward(env)
    assert verdict(env, walking, actor)
    assert not verdict(StartsElsewhere(), walking, actor)
    said = capsys.readouterr().out
    expected = (
        "first divergence: memory.last.in[0][0] at step 12, tick 0: environment 0.9, file 0.3"
    )
    assert expected in said


class OtherGain(PdFourTicks):
    """Differs from its file in the ticks between decisions only."""

    ticks = 0

    def process_actions(self, actions: Tensor) -> None:
        super().process_actions(actions)
        self.ticks = 0

    def apply_actions(self) -> None:
        super().apply_actions()
        if self.ticks == 2:
            self.torque += 0.01
        self.ticks += 1


def test_a_substep_that_differs_is_noticed(
    walking: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = PdFourTicks()
    actor = feedforward(env)
    assert not verdict(OtherGain(), walking, actor)
    assert "first divergence: torque[0][0] at step 0, tick 2: " in capsys.readouterr().out


class FailsLate(PdFourTicks):
    """Differs in one step of the whole run."""

    steps = 0

    def step(self, actions: Tensor) -> tuple[Tensor, bool]:
        self.steps += 1
        return super().step(actions)

    def compute_observations(self) -> Tensor:
        return super().compute_observations() + (0.1 if self.steps == 11 else 0.0)


def test_one_failing_step_fails_the_whole(walking: Path) -> None:
    env = PdFourTicks()
    actor = feedforward(env)
    assert not verdict(FailsLate(), walking, actor)


def test_a_file_whose_memory_is_not_that_of_the_environment_is_no_success(walking: Path) -> None:
    env = PdFourTicks()
    actor = feedforward(env)
    env.context_manager().add_component(Memory("extra", lambda: env.torque))
    with pytest.raises(UsageError, match="extra"):
        verdict(env, walking, actor)


def test_no_steps_are_no_success(walking: Path) -> None:
    env = PdFourTicks()
    actor = feedforward(env)
    session = SessionWrapper(walking, "policy.onnx", actor=actor)
    passed, _ = evaluate(env, env.context_manager(), session, num_steps=0, verbose=False)
    assert not passed


def test_evaluate_says_what_it_needs(walking: Path) -> None:
    env = PdFourTicks()
    actor = feedforward(env)
    blind = SessionWrapper(walking, "policy.onnx")
    with pytest.raises(UsageError, match="no actor to compare the file with"):
        evaluate(env, env.context_manager(), blind, num_steps=5)
    session = SessionWrapper(walking, "policy.onnx", actor=actor)
    with pytest.raises(UsageError, match="num_episodes is missing"):
        evaluate(env, env.context_manager(), session)


class OwnWay(Pd):
    """An environment whose step applies the actions by a method of its own."""

    decimation = 4

    def step(self, actions: Tensor) -> tuple[Tensor, bool]:
        self.process_actions(actions)
        for _ in range(self.decimation):
            self.torque[:] = 20.0 * (self.target - self.q) - 0.5 * self.v
            self.age += 1
            self.world()
        return self.compute_observations(), False


def test_an_environment_that_applies_actions_by_another_way_is_compared_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = OwnWay()
    actor = feedforward(env)
    export_environment_as_onnx(env, actor, tmp_path)
    session = SessionWrapper(tmp_path, "policy.onnx", actor=actor)
    passed, _ = evaluate(env, env.context_manager(), session, num_steps=12)
    assert passed, capsys.readouterr().out
    with torch.no_grad():
        next(actor.parameters()).add_(0.1)
    passed, _ = evaluate(env, env.context_manager(), session, num_steps=12)
    assert not passed
    assert "first divergence: " in capsys.readouterr().out
