"""Live models of Stable-Baselines3: what their environment knows is used, the rest is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

import roadworthy as rw
from tests.adapters import living

pytestmark = [pytest.mark.framework, pytest.mark.filterwarnings("ignore")]
SEEN, DONE = Box(-5, 5, (4,), np.float32), Box(-1, 1, (2,))
SMALL: dict[str, Any] = {
    "n_steps": 8, "batch_size": 8, "device": "cpu", "policy_kwargs": {"net_arch": [16]},
}  # fmt: skip


def ppo(env: Any) -> Any:
    from stable_baselines3 import PPO

    return PPO("MlpPolicy", env, **SMALL)


def reloaded(model: Any, folder: Path, **keywords: Any) -> Any:
    model.save(folder / "model.zip")
    return type(model).load(folder / "model.zip", device="cpu", **keywords)


def codes(bundle: rw.Bundle) -> list[str]:
    return [
        each.code for each in rw.Certificate.from_bytes(bundle.files["certificate.json"]).findings
    ]


def rows(count: int = 200) -> Any:
    return np.random.default_rng(0).uniform(-5, 5, (count, 4)).astype(np.float32)


def test_a_model_without_its_environment_is_asked_about(tmp_path: Path) -> None:
    env = living.vec_normalized(SEEN, DONE)
    alone = reloaded(ppo(env), tmp_path)
    with pytest.raises(rw.UsageError, match="vecnormalize: whether training normalised") as caught:
        rw.to_source(alone)
    (finding,) = caught.value.findings
    assert finding.code == "RW180"
    assert "vecnormalize='none'" in finding.hint
    assert rw.to_source(alone, vecnormalize="none").normalizer is None  # type: ignore[union-attr]
    with_env = reloaded(ppo(env), tmp_path, env=env)
    assert rw.to_source(with_env).normalizer is not None  # type: ignore[union-attr]


@pytest.mark.parametrize("said", ["object", "file"])
def test_statistics_are_applied_and_not_called_missing(tmp_path: Path, said: str) -> None:
    env = living.vec_normalized(SEEN, DONE)
    env.save(str(tmp_path / "vecnormalize.pkl"))
    model = reloaded(ppo(env), tmp_path)
    given = env if said == "object" else tmp_path / "vecnormalize.pkl"
    bundle = rw.export(model, tmp_path / "out", vecnormalize=given)
    assert "RW162" not in codes(bundle)
    expected, _ = model.predict(env.normalize_obs(rows()), deterministic=True)
    got = rw.load(tmp_path / "out").step({"obs": rows()})["action"]
    np.testing.assert_allclose(got, expected, atol=1e-5)


def test_a_missing_normaliser_is_named_and_not_the_critic(tmp_path: Path) -> None:
    env = living.vec_normalized(SEEN, DONE)
    model = reloaded(ppo(env), tmp_path)
    rw.export(model, tmp_path / "out", vecnormalize="none")
    certificate = rw.verify(tmp_path / "out", against=model, vecnormalize=env)
    assert not certificate.passed
    causes = [each.what for each in certificate.findings if each.code == "RW320"]
    assert causes == ["the normaliser of 'obs' is missing in the artifact"]


def test_other_weights_are_those_of_the_actor(tmp_path: Path) -> None:
    model = ppo(living.Room(SEEN, DONE))
    rw.export(model, tmp_path / "out")
    with torch.no_grad():
        model.policy.action_net.weight.normal_()
    certificate = rw.verify(tmp_path / "out", against=model)
    (cause,) = [each.what for each in certificate.findings if each.code == "RW320"]
    assert cause.startswith("1 of the 2 weight matrices of the original are not in the file")
    assert "action_net" in cause


def test_rewards_alone_are_no_normaliser() -> None:
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    env = VecNormalize(DummyVecEnv([lambda: living.Room(SEEN, DONE)]), norm_obs=False)
    assert rw.to_source(ppo(env)).normalizer is None  # type: ignore[union-attr]


def test_gymnasiums_normaliser_is_applied(tmp_path: Path) -> None:
    wrapped = gymnasium.wrappers.NormalizeObservation(living.Room(SEEN, DONE))
    model = ppo(wrapped)
    model.learn(64)
    bundle = rw.export(model, tmp_path / "out")
    assert "RW196" not in codes(bundle)
    wrapped.update_running_mean = False
    expected, _ = model.predict(
        np.stack([wrapped.observation(each) for each in rows()]), deterministic=True
    )
    got = rw.load(tmp_path / "out").step({"obs": rows()})["action"]
    np.testing.assert_allclose(got, expected, atol=1e-5)
    assert bundle.signature.inputs[0].about.high == 5


def test_normalisers_that_cannot_be_told_apart_are_refused() -> None:
    from stable_baselines3.common.vec_env import DummyVecEnv

    made = gymnasium.wrappers.NormalizeObservation
    several = ppo(DummyVecEnv([lambda: made(living.Room(SEEN, DONE))] * 2))
    several.learn(32)
    with pytest.raises(rw.UsageError, match="each with statistics of its own") as caught:
        rw.to_source(several)
    assert "normalizer=rw.EpsInsideRoot" in caught.value.findings[0].hint
    told = rw.EpsInsideRoot(mean=np.ones(4), var=np.ones(4), eps=1e-8)
    assert rw.to_source(several, normalizer=told).normalizer is told  # type: ignore[union-attr]
    flat = gymnasium.wrappers.FlattenObservation(made(living.Room(SEEN, DONE)))
    with pytest.raises(rw.UsageError, match="stands inside of FlattenObservation"):
        rw.to_source(ppo(flat))


def test_other_wrappers_are_named(tmp_path: Path) -> None:
    env = gymnasium.wrappers.RescaleAction(living.Room(SEEN, DONE), -2.0, 2.0)
    doubled = gymnasium.wrappers.TransformObservation(env, lambda obs: 2 * obs, SEEN)
    bundle = rw.export(ppo(doubled), tmp_path / "out")
    certificate = rw.Certificate.from_bytes(bundle.files["certificate.json"])
    said = [each.what for each in certificate.findings if each.code == "RW196"]
    assert len(said) == 2
    assert "(TransformObservation)" in said[0]
    assert "(RescaleAction)" in said[1]


@pytest.mark.parametrize("inside", [True, False])
def test_a_frame_stack_around_statistics_is_memory(tmp_path: Path, inside: bool) -> None:
    from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecNormalize

    seen = Box(-np.float32([5, 6, 7, 8]), np.float32([5, 6, 7, 8]))
    base = DummyVecEnv([lambda: living.Room(seen, DONE)])
    env: Any = (
        VecFrameStack(VecNormalize(base), 3) if inside else VecNormalize(VecFrameStack(base, 3))
    )
    model = ppo(env)
    model.learn(32)
    bundle = rw.export(model, tmp_path / "out")
    (port,) = bundle.signature.inputs
    assert port.shape[-1] == (4 if inside else 12)
    if not inside:
        return
    assert np.array_equal(port.about.high, [5, 6, 7, 8])
    policy, stack, statistics = rw.load(tmp_path / "out"), np.zeros((1, 12), np.float32), env.venv
    for row in rows(6):
        stack = np.concatenate([stack[:, 4:], statistics.normalize_obs(row[None])], axis=1)
        expected, _ = model.predict(stack, deterministic=True)
        np.testing.assert_allclose(policy.step({"obs": row[None]})["action"], expected, atol=1e-5)
    alone = reloaded(model, tmp_path)
    with pytest.raises(rw.UsageError, match=r"shape \(4,\), the observation \(12,\)") as caught:
        rw.to_source(alone, vecnormalize=statistics)
    assert "frame_stack=3" in caught.value.findings[0].hint
    assert "frames" in rw.to_source(alone, vecnormalize=statistics, frame_stack=3).memory  # type: ignore[union-attr]


def test_a_model_is_diagnosed_as_it_is_exported(tmp_path: Path) -> None:
    model = ppo(living.Room(SEEN, DONE))
    diagnosis = rw.diagnose(model)
    assert diagnosis.exported
    assert diagnosis.ok
    assert "RW169" not in [each.code for each in diagnosis.findings]
    asked = rw.diagnose(reloaded(model, tmp_path))
    assert [each.code for each in asked.errors] == ["RW180"]
