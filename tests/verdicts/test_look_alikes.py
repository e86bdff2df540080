"""Look-alikes of state are exported, certified and not even remarked on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import roadworthy as rw
from tests.capture.state import alike
from tests.verdicts.look_alikes import LOOK_ALIKES


@pytest.mark.parametrize("kind", LOOK_ALIKES, ids=lambda kind: kind.__name__)
def test_a_look_alike_raises_no_alarm(kind: type[nn.Module], tmp_path: Path) -> None:
    torch.manual_seed(4)
    bundle = rw.export(kind(), tmp_path / "b", example={"obs": torch.zeros(1, 5)})
    certificate = rw.Certificate.from_bytes(bundle.files["certificate.json"])
    assert certificate.passed
    assert certificate.findings == ()
    assert bundle.signature.memory == ()


def test_the_list_is_long_enough() -> None:
    assert len(LOOK_ALIKES) >= 20
    assert len({each.__name__ for each in (*LOOK_ALIKES, *alike.ALIKE)}) >= 45
