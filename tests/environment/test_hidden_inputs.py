"""No hidden input is baked, however rarely it moves and wherever it is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from roadworthy import export_environment
from roadworthy.errors import CertificateFailed, ExportError
from tests.environment.hidden_inputs import BOOKKEEPING, DISGUISED, Extra, GatedCommand, NumpyState
from tests.environment.mistakes import Sound
from tests.environment.robot import feedforward


@pytest.mark.parametrize("kind", DISGUISED, ids=lambda kind: kind.__name__)
def test_a_hidden_input_in_disguise_is_refused(kind: type[Extra], tmp_path: Path) -> None:
    env = kind()
    with pytest.raises(ExportError) as caught:
        export_environment(env, feedforward(env), tmp_path / "bundle")
    assert {finding.code for finding in caught.value.findings} == {"RW121"}
    assert any(DISGUISED[kind] in finding.where for finding in caught.value.findings)


@pytest.mark.parametrize("kind", BOOKKEEPING, ids=lambda kind: kind.__name__)
def test_bookkeeping_is_no_hidden_input(kind: type[Sound], tmp_path: Path) -> None:
    env = kind()
    export_environment(env, feedforward(env), tmp_path / "bundle")


def test_a_numpy_array_inside_the_step_is_refused_at_its_line(tmp_path: Path) -> None:
    env = NumpyState()
    with pytest.raises(ExportError) as caught:
        export_environment(env, feedforward(env), tmp_path / "bundle")
    (finding,) = caught.value.findings
    assert finding.code == "RW103"
    assert "torch.from_numpy(self.scan)" in finding.where
    assert finding.what == "the code leaves PyTorch for NumPy; a graph would freeze what comes back"


def test_what_no_search_finds_the_living_environment_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roadworthy.environment.capture.hidden", lambda *_: ([], []))
    env = GatedCommand()
    with pytest.raises(CertificateFailed) as caught:
        export_environment(env, feedforward(env), tmp_path / "bundle")
    finding, *_ = caught.value.findings
    assert finding.where == "free run"
    assert finding.what.startswith("actions[0]")
    assert list(tmp_path.iterdir()) == []
