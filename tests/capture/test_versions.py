"""Which versions exports are tested with, and what is said of others."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomllib
import torch

from roadworthy.capture.versions import INSIST, TESTED, refuse_broken, refuse_untested
from roadworthy.errors import ExportError, MissingExtra, RoadworthyWarning


@pytest.mark.parametrize("text", ["2.9.1+cu128", "2.10.0", "2.16.0", "3.0.0a1"])
def test_other_version_is_refused_with_a_sentence(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(INSIST, raising=False)
    with pytest.raises(MissingExtra) as caught:
        refuse_untested({"torch": text})
    assert str(caught.value) == (
        f"[RW002] Roadworthy was not tested with torch {text}, but with 2.11, 2.12, 2.13, 2.14 "
        "and 2.15\n  → pip install 'torch==2.15.*'; or set ROADWORTHY_UNTESTED=1, and the "
        "certificate tells whether it works"
    )


def test_who_insists_is_warned_once(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setattr("roadworthy.capture.versions._said", set())
    monkeypatch.setenv(INSIST, "1")
    refuse_untested({"onnx": "9.0.1"})
    refuse_untested({"onnx": "9.0.1"})
    (said,) = [str(each.message) for each in recwarn if each.category is RoadworthyWarning]
    assert said.startswith("Roadworthy was not tested with onnx 9.0.1, but with 1.23;")


def test_versions_of_this_machine_are_tested_ones() -> None:
    refuse_untested()


def test_known_mistake_of_a_version_is_said() -> None:
    lstm = torch.nn.Sequential(torch.nn.LSTM(2, 2))
    with pytest.raises(ExportError, match=r"torch 2\.11 captures the state of an LSTM"):
        refuse_broken(lstm, "2.11.0+cu130")
    with pytest.raises(ExportError, match=r"torch 2\.12 captures the state of an LSTM"):
        refuse_broken(lstm, "2.12.1")
    refuse_broken(lstm, "2.13.0")
    refuse_broken(torch.nn.GRU(2, 2), "2.11.0")


def test_the_package_asks_for_what_was_tested() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["export"]]
    for name in ("torch", "onnx", "onnxscript"):
        oldest = ".".join(map(str, TESTED[name][0]))
        assert f"{name}>={oldest}" in asked
