"""The session of Exploy's users, and where memory starts."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import roadworthy as rw
from roadworthy import export_environment
from roadworthy.compat.exploy import SessionWrapper, export_environment_as_onnx
from roadworthy.environment import add_actor_memory
from roadworthy.errors import BundleError, PortMismatch, UsageError
from tests.environment.environments import ENVIRONMENTS
from tests.environment.test_contract import feeds, tutorial
from tests.environment.test_tutorial import RNNActor


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("session")
    export_environment_as_onnx(*tutorial(), root)
    return root


def test_optimize_writes_the_optimized_graph(folder: Path) -> None:
    session = SessionWrapper(folder, "policy.onnx", optimize=True)
    assert (folder / "debug" / "policy_optimized.onnx").is_file()
    plain = SessionWrapper(folder, "policy.onnx", optimize=False)
    given = feeds(session.session)
    for one, other in zip(session(**given), plain(**given), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_without_optimize_nothing_is_written(folder: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copy(folder / "policy.onnx", tmp_path))
    SessionWrapper(tmp_path, "policy.onnx", optimize=False)
    assert list(tmp_path.rglob("*")) == [copied]


def test_outputs_are_had_by_name_until_the_reset(folder: Path) -> None:
    session = SessionWrapper(folder, "policy.onnx", optimize=False)
    with pytest.raises(UsageError, match="the session has not run yet"):
        session.get_output_value("actions")
    results = session(**feeds(session.session))
    assert session.get_output_value("out") is results[session.output_names.index("out")]
    session.reset()
    with pytest.raises(UsageError, match="the session has not run yet"):
        session.get_output_value("actions")


def test_wrong_names_are_answered_with_the_right_ones(folder: Path) -> None:
    session = SessionWrapper(folder, "policy.onnx", optimize=False)
    with pytest.raises(UsageError, match=r"no output 'action'\n.*did you mean 'actions'\?"):
        session.get_output_value("action")
    given = feeds(session.session)
    given["fooo"] = given.pop("foo")
    with pytest.raises(PortMismatch, match=r"missing input 'foo'\n.*did you mean 'fooo'\?"):
        session(**given)
    with pytest.raises(BundleError, match=r"walk\.onnx does not exist"):
        SessionWrapper(folder, "walk.onnx")


def test_the_actor_is_kept_for_evaluation(folder: Path) -> None:
    _, actor = tutorial()
    assert SessionWrapper(folder, "policy.onnx", actor, optimize=False).get_actor() is actor
    assert SessionWrapper(folder, "policy.onnx", optimize=False).get_actor() is None


def test_the_first_tick_after_a_reset_decides(tmp_path: Path) -> None:
    export_environment(*tutorial(), tmp_path / "bundle")
    policy = rw.load(tmp_path / "bundle")
    rng = np.random.default_rng(0)
    given = {
        port.name: rng.standard_normal(port.shape).astype(np.float32)
        for port in policy.signature.inputs
    }
    first = policy.step(given)
    assert first["obs"].any()
    assert not policy.step(given)["obs"].any()
    policy.reset()
    again = policy.step(given)
    for name, value in first.items():
        np.testing.assert_array_equal(again[name], value)


def test_memory_starts_where_the_environment_starts_it(tmp_path: Path) -> None:
    env, actor = ENVIRONMENTS["in_place"]()
    for _ in range(3):
        env.step(actor(env.compute_observations()).detach())
    export_environment(env, actor, tmp_path / "bundle")
    policy = rw.load(tmp_path / "bundle")
    expected = np.array([[0.25, -0.75]], dtype=np.float32)
    np.testing.assert_array_equal(policy.memory["filtered"], expected)
    policy.step({"q": np.ones((1, 2), dtype=np.float32)})
    assert not np.array_equal(policy.memory["filtered"], expected)
    policy.reset()
    np.testing.assert_array_equal(policy.memory["filtered"], expected)


def test_a_recurrent_actor_that_was_warm_starts_cold(tmp_path: Path) -> None:
    env, _ = tutorial()
    actor = RNNActor(env.env.num_obs, env.env.num_act).eval()
    with torch.no_grad():
        for _ in range(4):
            actor(env.compute_observations())
    add_actor_memory(env.context_manager(), actor.get_state)
    warm = [state.clone() for state in actor.get_state()]
    export_environment(env, actor, tmp_path / "bundle")
    policy = rw.load(tmp_path / "bundle")
    for index, state in enumerate(actor.get_state()):
        assert warm[index].any()
        assert torch.equal(state, warm[index])
        assert not policy.memory[f"actor_hidden_state_{index}"].any()
