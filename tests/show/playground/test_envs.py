"""The environments of the page, step by step beside Gymnasium's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import roadworthy as rw
from roadworthy.show.playground.environments import ENVIRONMENTS
from tests.browser import opened

pytestmark = pytest.mark.slow

ASSETS = Path(rw.__file__ or "").parent / "show" / "playground" / "assets"
STEPS = 300
NAMES = ("CartPole-v1", "Pendulum-v1", "MountainCar-v0", "Acrobot-v1", "CartPoleHiddenVelocity-v0")

FOLLOW = """([name, states, actions]) => {
  const env = new Roadworthy.envs[name]();
  return states.map((state, i) => {
    env.state = state;
    const { reward, ended } = env.step(actions[i]);
    return { observation: [...env.observe()], state: [...env.state], reward, ended };
  });
}"""


def state_of(env: Any) -> list[float]:
    return [float(each) for each in env.unwrapped.state]


def recorded(name: str) -> tuple[list[Any], list[Any], list[Any]]:
    """States, actions, and what Gymnasium made of them: new state, observation, reward, end."""
    import roadworthy.demo.environment  # registers the one of the demo

    assert roadworthy.demo.environment.ENV_ID in gym.registry
    env = gym.make(name).unwrapped if "Hidden" not in name else gym.make(name)
    env.action_space.seed(0)
    env.reset(seed=0)
    states, actions, results = [], [], []
    for _ in range(STEPS):
        action = env.action_space.sample()
        states.append(state_of(env))
        actions.append(float(np.ravel(action)[0]))
        observation, reward, terminated, _, _ = env.step(action)
        results.append((state_of(env), observation.tolist(), float(reward), bool(terminated)))
        if terminated:
            env.reset()
    env.close()
    return states, actions, results


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_step_in_the_page_is_gymnasiums(browser: Any, tmp_path: Path, name: str) -> None:
    scripts = "".join(
        f"<script>{(ASSETS / each).read_text()}</script>" for each in ("arrays.js", "envs.js")
    )
    (tmp_path / "page.html").write_text(f"<!doctype html><link rel=icon href='data:,'>{scripts}")
    states, actions, results = recorded(name)
    with opened(browser, tmp_path / "page.html", wait="html") as page:
        played = page.evaluate(FOLLOW, [ENVIRONMENTS[name].name, states, actions])
    assert len(played) == STEPS
    for got, (state, observation, reward, terminated) in zip(played, results, strict=True):
        np.testing.assert_allclose(got["state"], state, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(
            np.float32(got["observation"]), observation, rtol=2e-7, atol=1e-9
        )
        assert got["reward"] == pytest.approx(reward, rel=1e-6)
        assert got["ended"] == terminated
