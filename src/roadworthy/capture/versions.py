"""The versions that exports were tested with; others are refused, unless somebody insists."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from roadworthy.errors import ExportError, MissingExtra, RoadworthyWarning

if TYPE_CHECKING:
    import torch

# Package → the releases that tests ran with, newest last; docs/gpu.md says which tests.
TESTED = {
    "torch": ((2, 11), (2, 12), (2, 13), (2, 14), (2, 15)),
    "onnx": ((1, 23),),
    "onnxscript": ((0, 7),),
    "onnxruntime": ((1, 30), (1, 31)),
}
# Set to 1, an export goes on with versions that nobody tried.
INSIST = "ROADWORTHY_UNTESTED"
_said: set[str] = set()


def refuse_untested(found: Mapping[str, str] | None = None) -> None:
    """An error for a version that was not tested; with `INSIST` a warning, said once."""
    for name, releases in TESTED.items():
        text = (found or {}).get(name) or installed(name)
        own = tuple(int(part) for part in re.findall(r"\d+", text)[:2])
        if own in releases:
            continue
        what = f"Roadworthy was not tested with {name} {text}, but with {_listed(releases)}"
        if os.environ.get(INSIST) != "1":
            raise MissingExtra(
                what,
                hint=f"pip install '{name}=={_dotted(releases[-1])}.*'; or set {INSIST}=1, and "
                "the certificate tells whether it works",
            )
        if name not in _said:
            _said.add(name)
            warnings.warn(f"{what}; {INSIST}=1 goes on", RoadworthyWarning, stacklevel=2)


def installed(name: str) -> str:
    """The version of a package; the one for GPUs has another name on its label."""
    try:
        return version(name)
    except PackageNotFoundError:
        return version(f"{name}-gpu")


def refuse_broken(module: torch.nn.Module, release: str | None = None) -> None:
    """An error for a part that this PyTorch is known to capture wrongly."""
    import torch

    own = (release or torch.__version__)[:4]
    lstm = any(isinstance(part, torch.nn.LSTM) for part in module.modules())
    if own not in ("2.11", "2.12") or not lstm:
        return
    raise ExportError(
        f"torch {own} captures the state of an LSTM with an axis too many",
        code="RW105",
        where=type(module).__name__,
        hint=f"pip install 'torch>=2.13', and export again; torch {own} runs what that has written",
    )


def _listed(releases: tuple[tuple[int, ...], ...]) -> str:
    *others, newest = map(_dotted, releases)
    return f"{', '.join(others)} and {newest}" if others else newest


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
