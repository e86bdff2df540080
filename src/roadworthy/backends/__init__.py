"""Backends: a Program goes in, files come out. Found by the name that users type."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, cast

from roadworthy.errors import UsageError, did_you_mean
from roadworthy.program import Program

_MODULES = {
    "onnx": "roadworthy.backends.onnx",
    "torch_export": "roadworthy.backends.torch_export",
    "aoti": "roadworthy.backends.aoti",
}


class Backend(Protocol):
    """One method: write the program into `folder` and say which file it became.

    Making one fails where this machine lacks what it needs, before any work is done.
    """

    def lower(self, program: Program, folder: Path) -> Sequence[Path]: ...


def names() -> tuple[str, ...]:
    return tuple(_MODULES)


def refuse_unknown(name: str) -> None:
    if name not in _MODULES:
        raise UsageError(f"there is no target {name!r}", hint=did_you_mean(name, _MODULES))


def get(name: str) -> type[Backend]:
    """The backend's class."""
    refuse_unknown(name)
    return cast("type[Backend]", importlib.import_module(_MODULES[name]).BACKEND)
