"""Gymnasium's spaces around a policy that was read: frameworks ask for them to make their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from roadworthy.errors import need


def observation_box(example: Tensor) -> Any:
    """The space of a port: bytes for images, any number for everything else."""
    spaces: Any = need("gymnasium.spaces", extra="gym")
    pixels = example.dtype == torch.uint8
    return spaces.Box(
        0 if pixels else -np.inf, 255 if pixels else np.inf, tuple(example.shape[1:]),
        np.uint8 if pixels else np.float32,
    )  # fmt: skip


def action_box(facts: Mapping[str, str], size: int, *, limit: float) -> Any:
    """The space of continuous actions between the limits that were said; else ±`limit`."""
    spaces: Any = need("gymnasium.spaces", extra="gym")

    def side(name: str, default: float) -> Any:
        said = [float(each) for each in facts.get(name, str(default)).strip("[]() ").split(",")]
        return np.broadcast_to(np.asarray(said, np.float32), (size,)).copy()

    return spaces.Box(side("action_low", -limit), side("action_high", limit))
