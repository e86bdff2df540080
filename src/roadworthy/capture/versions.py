"""The versions that exports were tested with; others are refused, or said."""

from __future__ import annotations

import re
import warnings
from importlib.metadata import PackageNotFoundError, version

import torch

from roadworthy.errors import ExportError, MissingExtra, RoadworthyWarning

# Package → the oldest and the newest that tests ran with; docs/gpu.md says which tests.
TESTED = {
    "torch": ((2, 11), (2, 13)),
    "onnx": ((1, 23), (1, 23)),
    "onnxscript": ((0, 7), (0, 7)),
    "onnxruntime": ((1, 30), (1, 31)),
}
_said: set[str] = set()


def refuse_untested(found: dict[str, str] | None = None) -> None:
    """An error for what is older than anything tested, a warning for what is newer."""
    for name, (oldest, newest) in TESTED.items():
        text = (found or {}).get(name) or installed(name)
        own = tuple(int(part) for part in re.findall(r"\d+", text)[:2])
        if own < oldest:
            raise MissingExtra(
                f"{name} {text} is older than those that Roadworthy was tested with: "
                f"{_dotted(oldest)} to {_dotted(newest)}",
                hint=f"pip install '{name}>={_dotted(oldest)}'",
            )
        if own > newest and name not in _said:
            _said.add(name)
            warnings.warn(
                f"{name} {text} is newer than those that Roadworthy was tested with: "
                f"{_dotted(oldest)} to {_dotted(newest)}; the certificate tells whether it works",
                RoadworthyWarning,
                stacklevel=2,
            )


def installed(name: str) -> str:
    """The version of a package; the one for GPUs has another name on its label."""
    try:
        return version(name)
    except PackageNotFoundError:
        return version(f"{name}-gpu")


def refuse_broken(module: torch.nn.Module, release: str = torch.__version__) -> None:
    """An error for a part that this PyTorch is known to capture wrongly."""
    if not release.startswith("2.11.") or not any(
        isinstance(part, torch.nn.LSTM) for part in module.modules()
    ):
        return
    raise ExportError(
        "torch 2.11 captures the state of an LSTM with an axis too many",
        code="RW105",
        where=type(module).__name__,
        hint="pip install 'torch>=2.13', and export again; torch 2.11 runs what that has written",
    )


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
