"""State of any shape is carried as tensors, and is what the original keeps, row by row."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import roadworthy as rw
from tests.capture.class_styles.classes import OBS
from tests.capture.class_styles.following import farthest
from tests.capture.class_styles.states import STATES
from tests.tiers import representative


@pytest.mark.parametrize("name", representative(STATES, ["int", "dict", "tared"]))
def test_state_of_any_shape_is_the_original_s_over_many_steps(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, memory = STATES[name]
    module = make()
    example = {"obs": torch.zeros(1, OBS)}
    rw.export(module, tmp_path / "b", example=example, memory=memory)
    for rows in (1, 3):
        assert farthest(tmp_path / "b", module, OBS, rows=rows) < 1e-5
    rw.verify(tmp_path / "b", against=module).raise_if_failed()
