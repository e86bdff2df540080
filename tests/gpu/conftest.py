"""Tests that need a GPU; without one they are not collected, so nothing counts as done."""

from __future__ import annotations

from pathlib import Path

import torch


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    return None if torch.cuda.is_available() else True
