"""An artifact beside copies of its original, one for each row, over many steps with resets."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

import roadworthy as rw

STEPS = 200

Act = Callable[[nn.Module, torch.Tensor], torch.Tensor]


def call(module: nn.Module, obs: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = module(obs)
    return result


def farthest(folder: Path, original: nn.Module, size: int, *, rows: int, act: Act = call) -> float:
    """How far the artifact departs from copies of the original that are reset by copying anew."""
    rng = np.random.default_rng(rows)
    policy = rw.load(folder)
    fresh = copy.deepcopy(original).eval()
    live = [copy.deepcopy(fresh) for _ in range(rows)]
    worst = 0.0
    for step in range(STEPS):
        begins = rng.random(rows) < 0.03 if step else np.ones(rows, dtype=bool)
        for row in np.flatnonzero(begins):
            live[row] = copy.deepcopy(fresh)
        if begins.all():
            policy.reset()
        elif begins.any():
            policy.reset(begins)
        obs = rng.standard_normal((rows, size)).astype(np.float32)
        with torch.no_grad():
            expected = [act(each, torch.from_numpy(obs[[row]])) for row, each in enumerate(live)]
        got = next(iter(policy.step({policy.signature.inputs[0].name: obs}).values()))
        worst = max(worst, float(np.abs(got - torch.cat(expected).numpy()).max()))
    return worst
