"""`roadworthy export file.py:policy --exploration … --env …`, and verify with the same words."""

from __future__ import annotations

from pathlib import Path

import pytest

from roadworthy.cli.app import run

FILE = """
import torch
from tensordict.nn import InteractionType, NormalParamExtractor, TensorDictModule
from torch import nn
from torchrl.envs import GymEnv
from torchrl.modules import ProbabilisticActor, TanhNormal

torch.manual_seed(0)


def make_env():
    return GymEnv("Pendulum-v1")


network = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2), NormalParamExtractor())
policy = ProbabilisticActor(
    TensorDictModule(network, in_keys=["observation"], out_keys=["loc", "scale"]),
    in_keys=["loc", "scale"],
    distribution_class=TanhNormal,
)
explores = ProbabilisticActor(
    TensorDictModule(network, in_keys=["observation"], out_keys=["loc", "scale"]),
    in_keys=["loc", "scale"],
    distribution_class=TanhNormal,
    default_interaction_type=InteractionType.RANDOM,
)
"""


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pendulum.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    return tmp_path


def code_of(words: list[str]) -> int:
    with pytest.raises(SystemExit) as stopped:
        run(words)
    return int(stopped.value.code or 0)


def test_a_torchrl_policy_is_exported_and_verified_from_the_command_line(
    workshop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = ["--env", "pendulum.py:make_env", "--exploration", "deterministic"]
    assert code_of(["export", "pendulum.py:policy", *said, "-o", "bundle"]) == 0
    capsys.readouterr()
    assert code_of(["verify", "bundle", "--against", "pendulum.py:policy", *said]) == 0
    assert "fresh steps" in capsys.readouterr().out
    assert code_of(["verify", "bundle", "--against", "pendulum.py:policy"]) == 2
    shown = capsys.readouterr().err
    assert "RW147" in shown
    assert "against=policy, exploration='deterministic', env=env" in shown


def test_a_framework_keyword_is_set_by_its_name(
    workshop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["export", "pendulum.py:policy", "--env", "pendulum.py:make_env", "-o", "bundle"]
    assert code_of([*words, "--set", "exploration=deterministic", "--set", "period_s=0.05"]) == 0
    assert "0.05 s" in capsys.readouterr().out
    assert code_of([*words, "--set", "exploraton=mode"]) == 2
    assert "did you mean 'exploration'?" in capsys.readouterr().err
    assert code_of([*words, "--set", "exploration"]) == 2
    assert "cannot read --set 'exploration'" in capsys.readouterr().err


def test_a_policy_that_explores_is_asked_about(
    workshop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["pendulum.py:explores", "--env", "pendulum.py:make_env"]
    assert code_of(["doctor", *words]) == 1
    assert "exploration='deterministic'" in capsys.readouterr().out
    assert code_of(["doctor", *words, "--exploration", "deterministic"]) == 0
