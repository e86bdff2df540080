"""From a file to a certified bundle, on the command line and in Python."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roadworthy as rw
from tests.checkpoints.attacks import FILES
from tests.checkpoints.sb3_models import saved
from tests.checkpoints.stepping import Stepped
from tests.checkpoints.test_sb3 import assume
from tests.cli.conftest import roadworthy
from tests.schemas import bundle_problems

MODEL = FILES / "ppo_cartpole.zip"


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory: pytest.TempPathFactory) -> rw.Bundle:
    folder = tmp_path_factory.mktemp("cartpole") / "bundle"
    return rw.export(
        str(MODEL), folder, assume={"vecnormalize": "none"}, outputs=["value", "logits"]
    )


def test_a_checkpoint_becomes_a_bundle_that_says_where_it_came_from(cartpole: rw.Bundle) -> None:
    assert [port.name for port in cartpole.signature.outputs] == ["action", "value", "logits"]
    origin = cartpole.manifest["recipe"]["checkpoint"]
    assert (origin["framework"], origin["algorithm"]) == ("Stable-Baselines3", "PPO")
    assert {"name": "vecnormalize", "value": "none", "source": "assumed"} in origin["facts"]
    assert origin["keywords"] == {
        "assume": {"vecnormalize": "none"}, "outputs": ["value", "logits"],
    }  # fmt: skip
    assert bundle_problems(cartpole) == []


def test_a_bundle_is_verified_against_its_file_with_the_same_answers(cartpole: rw.Bundle) -> None:
    certificate = rw.verify(cartpole.folder, against=str(MODEL))
    assert certificate.passed
    notes = [finding.what for finding in certificate.findings if finding.code == "RW186"]
    assert notes == [
        "compared with the actor that was rebuilt from the file, not with Stable-Baselines3"
    ]


def test_another_file_is_not_taken_for_it(cartpole: rw.Bundle, tmp_path: Path) -> None:
    import io
    import zipfile

    import torch

    with zipfile.ZipFile(MODEL) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    weights = torch.load(io.BytesIO(members["policy.pth"]), weights_only=True)
    weights["action_net.bias"] += 0.01
    buffer = io.BytesIO()
    torch.save(weights, buffer)
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        for name, data in {**members, "policy.pth": buffer.getvalue()}.items():
            archive.writestr(name, data)
    assert not rw.verify(cartpole.folder, against=tmp_path / "other.zip").passed


def test_a_file_of_another_framework_is_named_as_such(cartpole: rw.Bundle, tmp_path: Path) -> None:
    other = Path(__file__).parent / "files" / "rsl_rl-2.1.2" / "mlp-elu" / "model_0.pt"
    with pytest.raises(rw.UsageError, match="this is a file of rsl_rl, the bundle was made from"):
        rw.verify(cartpole.folder, against=other)
    with pytest.raises(rw.UsageError, match="this is a bundle, which is exported already"):
        rw.verify(cartpole.folder, against=cartpole.folder)


def test_inspect_shows_what_the_file_is_and_what_it_leaves_open(tmp_path: Path) -> None:
    told = roadworthy("inspect", str(MODEL), "--json", cwd=tmp_path).json()
    assert told["framework"] == "Stable-Baselines3"
    assert told["recognised"] == "it holds data and policy.pth"
    assert told["architecture"] == "MLP 4 → 16 → 16 → 2, tanh"
    assert told["action"] == "Discrete 2"
    assert [each["name"] for each in told["questions"]] == ["vecnormalize"]
    shown = roadworthy("inspect", str(MODEL), cwd=tmp_path).out
    assert "--assume vecnormalize=none" in shown


def test_open_questions_end_an_export_with_exit_code_2(tmp_path: Path) -> None:
    done = roadworthy("export", str(MODEL), "-o", "out", cwd=tmp_path)
    assert done.code == 2
    assert "RW180 ppo_cartpole.zip: vecnormalize" in done.err
    assert not (tmp_path / "out").exists()
    done = roadworthy("export", str(MODEL), "-o", "out", "--assume", "vecnormalize", cwd=tmp_path)
    assert done.code == 2
    assert "cannot read --assume 'vecnormalize'" in done.err


def test_a_misspelt_output_is_answered_with_the_nearest() -> None:
    with pytest.raises(rw.UsageError, match="did you mean 'value'"):
        rw.to_source(MODEL, assume={"vecnormalize": "none"}, outputs=["vaule"])


def test_the_zoo_s_settings_say_that_nothing_was_normalised(tmp_path: Path) -> None:
    run = tmp_path / "CartPole-v1_1"
    (run / "CartPole-v1").mkdir(parents=True)
    shutil.copy(MODEL, run / "best_model.zip")
    written = (
        "!!python/object/apply:collections.OrderedDict\n- - - n_envs\n    - 8\n  - - normalize\n"
        "    - false\n"
    )
    (run / "CartPole-v1" / "config.yml").write_text(written)
    source: Any = rw.to_source(run / "best_model.zip")
    assert source.origin["facts"][1] == {
        "name": "vecnormalize", "value": "none", "source": "config.yml (normalize)",
    }  # fmt: skip


def test_stacked_observations_are_memory_that_starts_with_zeros() -> None:
    actor = Stepped(rw.to_source(MODEL, assume={"vecnormalize": "none"}, frame_stack=2), 1)
    whole = Stepped(rw.to_source(MODEL, assume={"vecnormalize": "none"}, outputs=["logits"]), 1)
    rng, before = np.random.default_rng(0), np.zeros((1, 2), np.float32)
    for _ in range(20):
        now = rng.normal(0, 1, (1, 2)).astype(np.float32)
        both = np.concatenate([before, now], axis=1)
        np.testing.assert_array_equal(
            actor.step({"obs": now})["action"], whole.step({"obs": both})["action"]
        )
        before = now


@pytest.mark.framework
@pytest.mark.parametrize(
    "name",
    [
        "ppo_dict_normalized",
        "recurrent",
        "maskable_several",
        "sac_uneven",
        "ppo_cnn",
        "ppo_multi_binary",
    ],
)
def test_a_trusted_file_is_compared_with_the_framework_s_own_predict(
    name: str, tmp_path: Path
) -> None:
    _, _, path = saved(name, tmp_path)
    rw.export(path, tmp_path / "out", assume=assume(name))
    certificate = rw.verify(tmp_path / "out", against=path, trust=True)
    assert certificate.passed, certificate.findings
    notes = [finding.what for finding in certificate.findings if finding.code == "RW186"]
    assert "own predict, step by step" in notes[0]


@pytest.mark.framework
def test_somebody_s_own_extractor_is_named_and_not_guessed(tmp_path: Path) -> None:
    from stable_baselines3 import PPO
    from stable_baselines3.common.torch_layers import FlattenExtractor

    from tests.checkpoints.sb3_models import blank, discrete, six

    class Doubled(FlattenExtractor):
        def forward(self, observations: Any) -> Any:
            return super().forward(observations) * 2

    model = PPO(
        "MlpPolicy", blank(six(), discrete()), device="cpu", n_steps=8, batch_size=8,
        policy_kwargs={"features_extractor_class": Doubled},
    )  # fmt: skip
    model.save(tmp_path / "own.zip")
    with pytest.raises(rw.UsageError) as caught:
        rw.to_source(tmp_path / "own.zip", assume={"vecnormalize": "none"})
    assert caught.value.findings[0].code == "RW183"
    assert json.dumps(str(caught.value)).count("RW183") == 1
