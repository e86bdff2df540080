"""Writes tests/checkpoints/files: checkpoints by released versions of frameworks.

    python -m tests.checkpoints.write_files rsl_rl 2.1.2

The version that is installed, or first on PYTHONPATH, must be the one that is named: put each one
into a folder of its own with `pip install --no-deps --target`.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import torch

from tests.checkpoints.recording import record

FILES = Path(__file__).parent / "files"


def main(framework: str, version: str) -> None:
    torch.manual_seed(0)
    np.random.seed(0)
    writer = importlib.import_module(f"tests.checkpoints.writers.{framework}")
    for case in writer.cases(version):
        name = case.name.removesuffix(f"-{version}")
        record(case, FILES / f"{framework}-{version}" / name)


if __name__ == "__main__":
    main(*sys.argv[1:])
