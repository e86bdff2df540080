"""Any style of environment becomes the same policy, and comes back as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import roadworthy as rw
from roadworthy import export_environment
from roadworthy.compat.exploy import SessionWrapper, evaluate, export_environment_as_onnx
from tests.conftest import ExportedEnvironment
from tests.environment.eager import Eager, differing, facts
from tests.environment.environments import ENVIRONMENTS
from tests.tiers import REPRESENTATIVE_ENVIRONMENTS, representative

Exports = Callable[[str], Path]
STYLES = representative(ENVIRONMENTS, REPRESENTATIVE_ENVIRONMENTS)


@pytest.fixture
def bundle(export_environment_once: Callable[[str], ExportedEnvironment]) -> Exports:
    """The folder of an environment's bundle, written at the first call only."""
    return lambda style: export_environment_once(style).bundle.folder


def follow(style: str, folder: Path, *, ticks: int, seed: int = 0) -> None:
    """Policy and eager environment side by side; each keeps its own memory."""
    rng = np.random.default_rng(seed)
    policy, eager = rw.load(folder), Eager(*ENVIRONMENTS[style]())
    assert set(eager.memory) <= set(policy.memory)
    for tick in range(ticks):
        if tick == 0 or rng.random() < 0.03:
            policy.reset()
            eager.reset()
        values = eager.draw(rng)
        expected, got = eager.step(values), policy.step(values)
        compare(expected, got, f"tick {tick}")
        compare(eager.memory, policy.memory, f"memory after tick {tick}")


def compare(expected: dict, got: dict, when: str) -> None:
    for name, value in expected.items():
        np.testing.assert_allclose(
            got[name], value, rtol=1e-5, atol=1e-5, err_msg=f"{name}, {when}"
        )
        assert got[name].dtype == value.dtype


@pytest.mark.parametrize("style", STYLES)
def test_the_policy_does_what_the_environment_does(style: str, bundle: Exports) -> None:
    folder = bundle(style)
    certificate = rw.verify(folder)
    assert certificate.passed, str(certificate)
    follow(style, folder, ticks=240)


@pytest.mark.parametrize("style", ["in_place", "pd_four_ticks", "lstm", "delayed"])
def test_a_thousand_steps_stay_within_tolerance(style: str, bundle: Exports) -> None:
    env, _ = ENVIRONMENTS[style]()
    follow(style, bundle(style), ticks=1000 * env.decimation, seed=7)


@pytest.mark.parametrize("style", STYLES)
def test_environment_and_actor_come_back_bit_for_bit(
    style: str, export_environment_once: Callable[[str], ExportedEnvironment]
) -> None:
    assert export_environment_once(style).changed == []


@pytest.mark.parametrize(
    "style",
    representative(
        ["in_place", "early_views", "four_robots", "ring", "lstm"], ["early_views", "lstm"]
    ),
)
def test_evaluate_agrees_inside_and_outside_of_inference_mode(style: str, tmp_path: Path) -> None:
    env, actor = ENVIRONMENTS[style]()
    for module in env.context_manager().modules:
        module.eval()
    export_environment_as_onnx(env, actor, tmp_path)
    session = SessionWrapper(tmp_path, "policy.onnx", actor=actor)
    for mode in (torch.no_grad, torch.enable_grad, torch.inference_mode):
        with mode():
            passed, observations = evaluate(env, env.context_manager(), session, num_steps=20)
        assert passed, mode
        assert observations.shape == env.compute_observations().shape


@pytest.mark.parametrize(
    "style",
    representative(["pd_four_ticks", "rebinding", "gru", "delayed"], ["pd_four_ticks", "gru"]),
)
def test_evaluate_counts_in_episodes(style: str, tmp_path: Path) -> None:
    env, actor = ENVIRONMENTS[style]()
    export_environment_as_onnx(env, actor, tmp_path)
    session = SessionWrapper(tmp_path, "policy.onnx", actor=actor)
    passed, _ = evaluate(
        env, env.context_manager(), session, num_episodes=2, max_episode_steps=15, verbose=False
    )
    assert passed


@pytest.mark.parametrize(
    "style", representative(["slices", "early_views", "two_arms", "lstm"], ["early_views", "lstm"])
)
def test_a_second_export_gives_the_same_bytes(style: str, bundle: Exports, tmp_path: Path) -> None:
    first = bundle(style)
    export_environment(*ENVIRONMENTS[style](), tmp_path / "again")
    names = sorted(path.name for path in first.iterdir())
    assert names == sorted(path.name for path in (tmp_path / "again").iterdir())
    for name in names:
        assert (first / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name


@pytest.mark.parametrize("style", representative(["rebinding", "in_place", "lstm"], ["rebinding"]))
def test_an_environment_that_lived_in_inference_mode_is_exported_again(
    style: str, tmp_path: Path
) -> None:
    env, actor = ENVIRONMENTS[style]()
    export_environment_as_onnx(env, actor, tmp_path / "first")
    session = SessionWrapper(tmp_path / "first", "policy.onnx", actor=actor)
    with torch.inference_mode():
        evaluate(env, env.context_manager(), session, num_steps=5, verbose=False)
    before = facts(env, actor)
    export_environment(env, actor, tmp_path / "second")
    assert differing(before, facts(env, actor)) == []
