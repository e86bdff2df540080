"""What cannot be exported as it is says so, and says what to change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from mjlab.tasks import registry

import roadworthy as rw
from roadworthy.frameworks.mjlab.tasks import actor_of
from tests.adapters.mjlab.tasks import CARTPOLE, made


def noisy(cfg: Any) -> None:
    cfg.observations["actor"].enable_corruption = True


def drawn_delay(cfg: Any) -> None:
    term = cfg.observations["actor"].terms["cart_pos"]
    term.delay_min_lag, term.delay_max_lag = 0, 2


def branching(cfg: Any) -> None:
    cfg.observations["actor"].nan_policy = "sanitize"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (noisy, r"enable_corruption = False"),
        (drawn_delay, r"between 0 and 2 steps: expected one number"),
        (branching, r"the policy 'sanitize' branches"),
    ],
)
def test_a_setting_of_training_is_refused(
    change: Callable[[Any], None], said: str, tmp_path: Path
) -> None:
    env = made(CARTPOLE, change)
    with pytest.raises(rw.ExportError, match=said) as caught:
        rw.export_environment(env, torch.nn.Linear(5, 1), tmp_path / "out")
    assert {finding.code for finding in caught.value.findings} == {"RW187"}


def saved(path: Path, weights: dict[str, torch.Tensor]) -> Path:
    torch.save({"actor_state_dict": weights, "iter": 1}, path)
    return path


def test_a_checkpoint_asks_for_its_task(tmp_path: Path) -> None:
    env = made(CARTPOLE)
    checkpoint = saved(tmp_path / "model.pt", {})
    with pytest.raises(rw.UsageError, match="task='Mjlab-…'"):
        rw.export_environment(env, str(checkpoint), tmp_path / "out")


def test_statistics_that_the_task_does_not_have_are_refused(tmp_path: Path) -> None:
    env = made(CARTPOLE)
    weights = {"obs_normalizer._mean": torch.zeros(1, 5)}
    with pytest.raises(rw.UsageError, match="RW031"):
        actor_of(env, saved(tmp_path / "model.pt", weights), CARTPOLE)


def test_a_normaliser_without_statistics_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env, cfg = made(CARTPOLE), registry.load_rl_cfg(CARTPOLE)
    cfg.actor.obs_normalization = True
    monkeypatch.setattr(registry, "load_rl_cfg", lambda task: cfg)
    with pytest.raises(rw.UsageError, match=r"RW031.*the checkpoint has no statistics"):
        actor_of(env, saved(tmp_path / "model.pt", {}), CARTPOLE)


def test_a_group_that_is_not_there_is_named(tmp_path: Path) -> None:
    env = made(CARTPOLE)
    with pytest.raises(rw.UsageError, match="did you mean 'actor'"):
        rw.export_environment(env, torch.nn.Linear(5, 1), tmp_path / "out", groups=("actr",))


def test_an_actor_is_asked_for(tmp_path: Path) -> None:
    env = made(CARTPOLE)
    with pytest.raises(rw.UsageError, match="the actor is missing"):
        rw.export(env, tmp_path / "out")
