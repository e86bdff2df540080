"""Checkpoints of released versions act as their framework did when it wrote them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checkpoints.comparing import TOLERANCE, apart
from tests.checkpoints.recording import CASE, recording

FILES = Path(__file__).parent / "files"
FOLDERS = sorted(each.parent for each in FILES.rglob(CASE))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda each: f"{each.parent.name}-{each.name}")
def test_an_old_file_acts_as_its_framework_did(folder: Path) -> None:
    assert apart(recording(folder)) <= TOLERANCE


def test_every_layout_of_rsl_rl_is_among_them() -> None:
    versions = {each.parent.name.partition("-")[2][0] for each in FOLDERS
                if each.parent.name.startswith("rsl_rl")}  # fmt: skip
    assert versions == {"2", "3", "4", "5"}
    assert len(FOLDERS) >= 30
