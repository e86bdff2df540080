"""Rebuilt from the file alone, every model acts as Stable-Baselines3's own `predict` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roadworthy as rw
from tests.checkpoints.sb3_models import MODELS, RECURRENT, saved
from tests.checkpoints.stepping import Stepped

pytestmark = pytest.mark.framework
OBSERVATIONS, STEPS, ROWS = 1000, 200, 5


def assume(name: str) -> dict[str, str]:
    case = MODELS[name]
    said = {} if case.normalized else {"vecnormalize": "none"}
    images = {"image": "channels_last"} if "Cnn" in case.policy else {}
    return {**said, **images, **({"image_camera": "channels_last"} if name.endswith("dict") and
                                 case.observation.__name__ == "mixed" else {})}  # fmt: skip


def drawn(name: str, rng: np.random.Generator, rows: int) -> dict[str, Any]:
    """Port → observations as the environment would give them: wide, and to the limits."""
    space = MODELS[name].observation()
    spaces = getattr(space, "spaces", None) or {"obs": space}
    found = {}
    for port, each in spaces.items():
        if type(each).__name__ == "Box" and each.dtype == np.float32:
            values = rng.normal(0, 2.5, (rows, *each.shape)).astype(np.float32)
            found[port] = np.clip(values, each.low, each.high)
        else:
            each.seed(int(rng.integers(2**31)))
            found[port] = np.stack([each.sample() for _ in range(rows)])
    return found


def predicted(model: Any, statistics: Any, ports: dict[str, Any], **keywords: Any) -> Any:
    observation = ports["obs"] if list(ports) == ["obs"] else ports
    if statistics is not None:
        observation = statistics.normalize_obs(observation)
    return model.predict(observation, deterministic=True, **keywords)


def assert_same(expected: Any, actual: Any, name: str) -> None:
    if expected.dtype.kind == "f" and actual.dtype.kind == "f":
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5, err_msg=name)
    else:
        np.testing.assert_array_equal(actual, expected, err_msg=name)


@pytest.mark.parametrize("name", [name for name in MODELS if name not in RECURRENT])
def test_the_rebuilt_actor_acts_as_predict_does(name: str, tmp_path: Path) -> None:
    model, statistics, path = saved(name, tmp_path)
    rebuilt = Stepped(rw.to_source(path, assume=assume(name)), OBSERVATIONS)
    rng = np.random.default_rng(0)
    count = OBSERVATIONS
    ports = drawn(name, rng, count)
    masks, keywords = None, {}
    if MODELS[name].algorithm == "MaskablePPO":
        width = rebuilt.source.module.network.network.head.out_features
        masks = rng.random((count, width)) > 0.4
        masks[:, 0] = True
        keywords = {"action_masks": masks}
    expected, _ = predicted(model, statistics, ports, **keywords)
    assert_same(expected, rebuilt.step(ports, masks)["action"], name)


@pytest.mark.parametrize("name", RECURRENT)
def test_a_recurrent_actor_remembers_as_predict_does(name: str, tmp_path: Path) -> None:
    model, statistics, path = saved(name, tmp_path)
    rebuilt = Stepped(rw.to_source(path, assume=assume(name)), ROWS)
    rng = np.random.default_rng(0)
    state = None
    for step in range(STEPS):
        starts = np.ones(ROWS, bool) if step == 0 else rng.random(ROWS) < 0.05
        ports = drawn(name, rng, ROWS)
        expected, state = predicted(model, statistics, ports, state=state, episode_start=starts)
        rebuilt.reset(starts)
        assert_same(expected, rebuilt.step(ports)["action"], f"{name}, step {step}")
