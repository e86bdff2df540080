"""Policies with somebody's own classes: refused alone, loaded by the framework where trusted."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roadworthy as rw

pytestmark = [pytest.mark.framework, pytest.mark.filterwarnings("ignore")]
CODE = """
from stable_baselines3.common.torch_layers import FlattenExtractor

class Doubled(FlattenExtractor):
    def forward(self, observations):
        return super().forward(observations) * 2
"""


@pytest.fixture
def own_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module of the user's, which can be imported."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "walker_extractor.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path / "code")
    import walker_extractor

    yield walker_extractor
    sys.modules.pop("walker_extractor", None)


def saved(own_code: Any, folder: Path, *, normalised: bool = False) -> tuple[Any, Any, Path]:
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    from tests.checkpoints.sb3_models import blank, discrete, six

    env: Any = blank(six(), discrete())
    statistics = None
    if normalised:
        env = DummyVecEnv([lambda: blank(six(), discrete())])
        env = statistics = VecNormalize(env)
        statistics.obs_rms.update(2.0 * np.random.default_rng(0).normal(size=(64, 6)) + 1.0)
    model = PPO("MlpPolicy", env, device="cpu", n_steps=8, batch_size=8,
                policy_kwargs={"features_extractor_class": own_code.Doubled})  # fmt: skip
    model.save(folder / "own.zip")
    if statistics is not None:
        statistics.save(folder / "vecnormalize.pkl")
    return model, statistics, folder / "own.zip"


def test_without_trust_the_refusal_names_the_class_and_the_way(
    own_code: Any, tmp_path: Path
) -> None:
    _, _, path = saved(own_code, tmp_path)
    with pytest.raises(
        rw.UsageError, match=r"walker_extractor\.Doubled is somebody's own"
    ) as caught:
        rw.to_source(path, assume={"vecnormalize": "none"})
    (finding,) = caught.value.findings
    assert finding.code == "RW183"
    assert "--trust" in finding.hint


@pytest.mark.parametrize("normalised", [False, True])
def test_with_trust_it_acts_as_the_framework_predicts(
    own_code: Any, tmp_path: Path, normalised: bool
) -> None:
    model, statistics, path = saved(own_code, tmp_path, normalised=normalised)
    said: dict[str, Any] = {} if normalised else {"assume": {"vecnormalize": "none"}}
    bundle = rw.export(path, tmp_path / "out", trust=True, **said)
    obs = np.random.default_rng(1).normal(size=(1000, 6)).astype(np.float32)
    seen = statistics.normalize_obs(obs) if statistics else obs
    expected, _ = model.predict(seen, deterministic=True)
    np.testing.assert_array_equal(rw.load(bundle.folder).step({"obs": obs})["action"], expected)
    certificate = rw.verify(bundle.folder, against=path, trust=True)
    assert certificate.passed
    notes = [finding.what for finding in certificate.findings if finding.code == "RW186"]
    assert notes == ["compared with Stable-Baselines3's own predict, step by step"]
    origin = bundle.manifest["recipe"]["checkpoint"]
    assert origin["algorithm"] == "PPO"
    told = "vecnormalize.pkl" if normalised else "none"
    assert told in [fact["value"] for fact in origin["facts"]]


def test_whether_it_was_normalised_is_asked_all_the_same(own_code: Any, tmp_path: Path) -> None:
    _, _, path = saved(own_code, tmp_path)
    with pytest.raises(rw.UsageError, match="vecnormalize: whether training normalised"):
        rw.to_source(path, trust=True)
    with pytest.raises(rw.UsageError, match="leave out outputs"):
        rw.to_source(path, trust=True, assume={"vecnormalize": "none"}, outputs=["value"])


def test_code_that_cannot_be_imported_is_said(
    own_code: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, path = saved(own_code, tmp_path)
    sys.modules.pop("walker_extractor")
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p != str(tmp_path / "code")])
    with pytest.raises(rw.UsageError, match=r"PPO\.load cannot read it") as caught:
        rw.to_source(path, trust=True, assume={"vecnormalize": "none"})
    assert "must be importable" in caught.value.findings[0].hint


def test_a_frame_stack_is_honoured_for_it_too(own_code: Any, tmp_path: Path) -> None:
    _, _, path = saved(own_code, tmp_path)
    source: Any = rw.to_source(path, trust=True, assume={"vecnormalize": "none"}, frame_stack=2)
    assert tuple(source.example["obs"].shape) == (1, 3)
    assert tuple(source.memory["frames"].shape) == (1, 6)
    assert source.origin["keywords"]["frame_stack"] == 2


def test_statistics_may_not_be_assumed_away(own_code: Any, tmp_path: Path) -> None:
    _, _, path = saved(own_code, tmp_path, normalised=True)
    with pytest.raises(rw.UsageError, match=r"vecnormalize\.pkl lies beside the file"):
        rw.to_source(path, trust=True, assume={"vecnormalize": "none"})
