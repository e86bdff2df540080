"""What the spaces of Gymnasium say about ports, without importing Gymnasium: shapes and limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from roadworthy.spec.port import About
from roadworthy.spec.signature import Action

OBS = "obs"
ACTION = "action"


def ports_of(space: Any) -> dict[str, Any]:
    """Port name → space: the entries of a dictionary, or `obs` alone."""
    named = getattr(space, "spaces", None)
    return dict(named) if isinstance(named, Mapping) else {OBS: space}


def example_of(space: Any) -> Tensor:
    """One row of zeros in the form in which observations of the space come."""
    return torch.from_numpy(np.zeros((1, *(space.shape or ())), dtype=space.dtype))


def about_of(space: Any) -> About:
    """The finite limits of the space."""
    count, counts = getattr(space, "n", None), getattr(space, "nvec", None)
    if counts is not None:
        return About(low=0, high=np.asarray(counts) - 1)
    if count is not None:
        binary = bool(space.shape)
        return About(low=0, high=1 if binary else int(count) - 1)
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if low is None or high is None or not (np.isfinite(low).all() and np.isfinite(high).all()):
        return About()
    return About(low=_alike(low), high=_alike(high))


def action_of(space: Any, output: str = ACTION) -> Action | None:
    """What actions of the space mean; None for a space that has no such meaning."""
    counts = getattr(space, "nvec", None)
    if counts is not None:
        return Action(output=output, kind="multi_discrete", sizes=tuple(map(int, counts)))
    count = getattr(space, "n", None)
    if count is not None:
        sizes = (2,) * int(np.prod(space.shape)) if space.shape else (int(count),)
        kind = "multi_discrete" if space.shape else "discrete"
        return Action(output=output, kind=kind, sizes=sizes)  # type: ignore[arg-type]
    if getattr(space, "low", None) is None:
        return None
    low, high = space.low, space.high
    finite = np.isfinite(low).all() and np.isfinite(high).all()
    if not finite:
        return Action(output=output, kind="continuous")
    return Action(output=output, kind="continuous", low=low, high=high)


def _alike(limits: Any) -> Any:
    """One number where all are the same: pictures have thousands."""
    flat = np.asarray(limits).reshape(-1)
    return flat[0].item() if flat.size and (flat == flat[0]).all() else limits
