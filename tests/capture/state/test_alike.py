"""What is only written, or built once, is no state: these raise no alarm."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import roadworthy as rw
from roadworthy.capture.capture import capture
from tests.capture.state import alike

OBS = {"obs": torch.zeros(1, 4)}


@pytest.mark.parametrize("kind", alike.ALIKE, ids=lambda kind: kind.__name__)
def test_look_alikes_are_captured(kind: type[nn.Module]) -> None:
    assert capture(rw.Source(kind(), example=OBS)).signature.memory == ()


def test_a_look_alike_is_certified_without_a_word(tmp_path: Path) -> None:
    bundle = rw.export(alike.CountsForALog(), tmp_path / "bundle", example=OBS)
    assert rw.Certificate.from_bytes(bundle.files["certificate.json"]).findings == ()


def test_everything_is_put_back() -> None:
    module = alike.CountsForALog()
    alike.LOG.clear()
    calls = alike.CALLS, alike.ClassForALog.calls
    capture(rw.Source(module, example=OBS))
    assert (module.calls, module.text) == (0, "")
    assert (alike.CALLS, alike.ClassForALog.calls) == calls
