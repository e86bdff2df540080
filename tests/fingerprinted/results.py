"""What is written down of a case: file → SHA-256, or what was said → its text."""

from __future__ import annotations

import hashlib
import random
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import roadworthy as rw
from tests.fingerprinted.moved import as_recorded

Result = dict[str, str]
REPOSITORY = Path(__file__).parents[2]
# It names the sums of the other files: with them it says nothing of its own.
LEFT_OUT = ("SHA256SUMS",)


def seed() -> None:
    """No case depends on what was drawn before it."""
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)


def sums(folder: Path) -> Result:
    return {
        file.relative_to(folder).as_posix(): hashlib.sha256(_contents(file)).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.name not in LEFT_OUT
    }


def _contents(file: Path) -> bytes:
    """A manifest names the module that was exported, which may have moved."""
    data = file.read_bytes()
    return as_recorded(data.decode()).encode() if file.name == "manifest.json" else data


def plain(text: str, folder: Path) -> str:
    """A text without what is of this machine and this run alone."""
    for path, name in ((folder, "TMP"), (REPOSITORY, "REPO"), (Path(sys.prefix), "PYTHON")):
        text = text.replace(str(path), name)
    text = re.sub(r"TMP/claims/[^/\s'\"]+", "TMP", text)
    # A line of the plug-in that calls for a test, where no line of the test's is to blame.
    text = re.sub(r"claims\.py:\d+", "claims.py", text)
    return as_recorded(re.sub(r"\b0x[0-9a-f]{6,}", "0x…", text))


def seen(make: Callable[[Path], object]) -> Result:
    """What comes of making a case: its files, or why it is refused."""
    seed()
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        folder = Path(scratch).resolve()
        result: Result = {}
        try:
            answer = make(folder / "bundle")
        except rw.RoadworthyError as error:
            result["refused"] = plain(str(error), folder)
        except Exception as error:  # a case that is not one for this call
            result["raised"] = plain(f"{type(error).__name__}: {error}", folder)
        else:
            if answer is not None and not isinstance(answer, rw.Bundle):
                result["answer"] = plain(str(answer), folder)
            result |= sums(folder / "bundle")
        told = [
            str(each.message) for each in heard if issubclass(each.category, rw.RoadworthyWarning)
        ]
        if told:
            result["warned"] = plain("\n".join(told), folder)
        return result
