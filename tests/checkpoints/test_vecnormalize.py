"""Statistics beside a file: applied, asked for, and never set aside by an assumption."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import roadworthy as rw
from roadworthy.cli.app import app

pytestmark = [pytest.mark.framework, pytest.mark.filterwarnings("ignore")]
NONE = {"vecnormalize": "none"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with the statistics of its observations, and those of rewards alone."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecNormalize

    from tests.checkpoints.sb3_models import blank, discrete, six

    folder = tmp_path_factory.mktemp("made")
    base = DummyVecEnv([lambda: blank(six(), discrete())])
    env = VecNormalize(base)
    env.obs_rms.update(2.0 * np.random.default_rng(0).normal(size=(64, 6)) + 1.0)
    small: dict[str, Any] = {"device": "cpu", "n_steps": 8, "batch_size": 8}
    PPO("MlpPolicy", env, **small).save(folder / "model.zip")
    PPO("MlpPolicy", VecFrameStack(env, 3), **small).save(folder / "stack.zip")
    env.save(str(folder / "statistics.pkl"))
    VecNormalize(base, norm_obs=False).save(str(folder / "rewards.pkl"))
    return folder


def run_of(made: Path, folder: Path, statistics: str = "statistics.pkl") -> Path:
    """A folder as a training leaves it."""
    folder.mkdir(parents=True)
    shutil.copy(made / "model.zip", folder)
    shutil.copy(made / statistics, folder / "vecnormalize.pkl")
    return folder / "model.zip"


def facts(source: Any) -> dict[str, tuple[str, str]]:
    return {each["name"]: (each["value"], each["source"]) for each in source.origin["facts"]}


def test_an_assumption_does_not_set_statistics_aside(made: Path, tmp_path: Path) -> None:
    path = run_of(made, tmp_path / "run")
    with pytest.raises(rw.UsageError, match=r"vecnormalize\.pkl lies beside the file") as caught:
        rw.to_source(path, assume=NONE)
    (finding,) = caught.value.findings
    assert finding.code == "RW184"
    assert "--vecnormalize none" in finding.hint
    with pytest.raises(rw.UsageError, match="and --vecnormalize statistics"):
        rw.to_source(made / "model.zip", assume=NONE, vecnormalize=made / "statistics.pkl")
    source: Any = rw.to_source(path)
    assert source.normalizer is not None


def test_who_says_none_by_name_is_believed_and_written_down(made: Path, tmp_path: Path) -> None:
    path = run_of(made, tmp_path / "run")
    bundle = rw.export(path, tmp_path / "out", vecnormalize="none")
    origin = bundle.manifest["recipe"]["checkpoint"]
    assert {"name": "vecnormalize", "value": "none", "source": "assumed"} in origin["facts"]
    assert rw.verify(tmp_path / "out", against=path).passed


def test_a_batch_keeps_the_bundle_whose_statistics_were_assumed_away(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_of(made, tmp_path / "runs" / "one")
    first = CliRunner().invoke(app, ["export", "runs/one/*.zip", "-o", "out", "--jobs", "1"])
    assert first.exit_code == 0, first.output
    before = {p: p.read_bytes() for p in (tmp_path / "out").rglob("*.onnx")}
    again = [
        "export",
        "runs/one/*.zip",
        "-o",
        "out",
        "--jobs",
        "1",
        "--assume",
        "vecnormalize=none",
    ]
    second = CliRunner().invoke(app, again)
    assert second.exit_code != 0
    assert "lies beside the file" in " ".join(second.output.split())
    assert before == {p: p.read_bytes() for p in (tmp_path / "out").rglob("*.onnx")}
    assert before


def test_statistics_of_rewards_alone_mean_that_observations_are_as_they_are(
    made: Path, tmp_path: Path
) -> None:
    source: Any = rw.to_source(run_of(made, tmp_path / "run", "rewards.pkl"))
    assert source.normalizer is None
    assert facts(source)["normalizer"][0] == "none: vecnormalize.pkl normalises rewards alone"


def test_statistics_of_another_shape_say_whether_it_is_a_stack(made: Path) -> None:
    given = {"vecnormalize": made / "statistics.pkl"}
    with pytest.raises(rw.UsageError, match=r"shape \(6,\), the observation \(18,\)") as caught:
        rw.to_source(made / "stack.zip", **given)
    assert "--frame-stack 3" in caught.value.findings[0].hint
    stacked: Any = rw.to_source(made / "stack.zip", frame_stack=3, **given)
    assert stacked.normalizer is not None
    with pytest.raises(rw.UsageError) as caught:
        rw.to_source(made / "stack.zip", frame_stack=2, **given)
    assert "another model" in caught.value.findings[0].hint


def test_a_model_is_not_taken_for_statistics(made: Path) -> None:
    with pytest.raises(rw.UsageError, match="this is the model") as caught:
        rw.to_source(made / "model.zip", vecnormalize=made / "model.zip")
    assert "vecnormalize.pkl" in caught.value.findings[0].hint


def test_doctor_speaks_of_the_file_and_takes_the_answers_of_export(made: Path) -> None:
    path = str(made / "model.zip")
    asked = CliRunner().invoke(app, ["doctor", path])
    assert asked.exit_code == 1
    assert asked.output.startswith("model.zip: not ready")
    ready = CliRunner().invoke(
        app, ["doctor", path, "--vecnormalize", str(made / "statistics.pkl")]
    )
    assert ready.exit_code == 0, ready.output
    assert ready.output.startswith("model.zip: no errors")
    assert "RW169" not in ready.output


def test_a_folder_is_answered_with_the_file_in_it(made: Path) -> None:
    with pytest.raises(rw.UsageError, match="this is a folder") as caught:
        rw.to_source(made)
    assert str(made / "model.zip") in caught.value.findings[0].hint
    with pytest.raises(rw.UsageError, match="a checkpoint takes no 'method'"):
        rw.to_source(made / "model.zip", method="act")


def test_an_activation_of_torch_is_nobodys_own_code(tmp_path: Path) -> None:
    from stable_baselines3 import PPO
    from torch import nn

    from tests.checkpoints.sb3_models import blank, discrete, six

    model = PPO("MlpPolicy", blank(six(), discrete()), device="cpu", n_steps=8, batch_size=8,
                policy_kwargs={"activation_fn": nn.PReLU})  # fmt: skip
    model.save(tmp_path / "model.zip")
    with pytest.raises(rw.UsageError, match="the activation PReLU is not rebuilt from a file"):
        rw.to_source(tmp_path / "model.zip", assume=NONE)
    assert rw.to_source(tmp_path / "model.zip", assume=NONE, trust=True)
