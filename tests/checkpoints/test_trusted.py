"""`trust` compares a checkpoint with what its own framework makes of it, or says why not."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import roadworthy as rw
from tests.checkpoints.recording import Recording, record, recording
from tests.checkpoints.test_written import INSTALLED
from tests.checkpoints.writers import rsl_rl

FILES = Path(__file__).parent / "files"
framework = pytest.mark.framework
pytestmark = pytest.mark.filterwarnings("ignore")
# Why skrl's instantiator does not make these: one is shared with the critic, two are users' own.
NOT_ASKED = {"ppo-shared", "ppo-lstm", "ppo-gru"}


@pytest.fixture(autouse=True)
def same_weights() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def trusted(recorded: Recording) -> rw.Source:
    source = rw.to_source(recorded.checkpoint, assume=for_the_action(recorded), trust=True)
    assert isinstance(source, rw.Source)
    return source


def for_the_action(recorded: Recording) -> dict[str, object]:
    return {name: said for name, said in recorded.assume.items() if name != "critic_obs"}


@framework
@pytest.mark.parametrize("name", INSTALLED)
def test_the_framework_itself_answers_as_it_did(name: str, tmp_path: Path) -> None:
    version = importlib.metadata.version(INSTALLED[name])
    writer = importlib.import_module(f"tests.checkpoints.writers.{name}")
    left_out = set()
    for case in writer.cases(version):
        recorded = record(case, tmp_path / case.name)
        source = trusted(recorded)
        if source.rewritten is None:
            left_out.add(case.name.removesuffix(f"-{version}"))
            continue
        rows = recorded.actions.shape[1]
        memory = {name: value.repeat(1, rows, 1) for name, value in source.memory.items()}
        given = {name: torch.from_numpy(recorded.inputs[name][0]) for name in source.example}
        with torch.no_grad():
            action = source.rewritten.module(**given, **memory)["action"]
        np.testing.assert_allclose(action, recorded.actions[0], atol=1e-6, err_msg=case.name)
    assert left_out == (NOT_ASKED if name == "skrl" else set())


@framework
def test_a_recurrent_checkpoint_is_certified_against_the_framework(tmp_path: Path) -> None:
    version = importlib.metadata.version("rsl-rl-lib")
    case = next(each for each in rsl_rl.cases(version) if each.name.startswith("lstm"))
    recorded = record(case, tmp_path / "run")
    said = {"assume": for_the_action(recorded)}
    rw.export(recorded.checkpoint, tmp_path / "bundle", **said)
    rw.verify(
        tmp_path / "bundle", against=recorded.checkpoint, trust=True, **said
    ).raise_if_failed()


@framework
@pytest.mark.parametrize(("name", "case"), [("rl_games", "cnn"), ("skrl", "ppo-cnn-bytes")])
def test_others_are_certified_against_their_framework(name: str, case: str, tmp_path: Path) -> None:
    version = importlib.metadata.version(INSTALLED[name])
    writer = importlib.import_module(f"tests.checkpoints.writers.{name}")
    found = next(each for each in writer.cases(version) if each.name.startswith(case))
    recorded = record(found, tmp_path / "run")
    rw.export(recorded.checkpoint, tmp_path / "bundle", assume=recorded.assume)
    certificate = rw.verify(tmp_path / "bundle", against=recorded.checkpoint, trust=True)
    assert certificate.passed, certificate.findings
    notes = [finding.what for finding in certificate.findings if finding.code == "RW186"]
    assert notes == [f"compared with {name}'s own predict, step by step"]


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("tianshou-1.2.0/ppo-bounded", "weights alone, of which Tianshou makes no policy"),
        ("sample_factory-2.1.1/continuous", "do not name the environment's spaces"),
        ("rsl_rl-2.1.2/mlp-elu", "models are made by versions 4 and 5"),
    ],
)
def test_where_the_framework_cannot_be_asked_the_reason_is_said(place: str, reason: str) -> None:
    source = trusted(recording(FILES / place))
    assert source.rewritten is None
    assert source.origin is not None
    assert reason in source.origin["not_asked"]


@pytest.mark.slow
def test_the_certificate_says_what_was_compared_instead(tmp_path: Path) -> None:
    recorded = recording(FILES / "tianshou-1.2.0" / "ppo-bounded")
    rw.export(recorded.checkpoint, tmp_path / "out", assume=recorded.assume)
    certificate = rw.verify(tmp_path / "out", against=recorded.checkpoint, trust=True)
    assert certificate.passed
    (note,) = [finding.what for finding in certificate.findings if finding.code == "RW186"]
    assert note.startswith("compared with the actor that was rebuilt from the file, not with Tian")
    assert note.endswith(": its files are weights alone, of which Tianshou makes no policy")
