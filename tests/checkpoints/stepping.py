"""A source stepped as an artifact of it would be: normaliser, network, action steps, memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import roadworthy as rw
from roadworthy.capture.transforms import action_step, normalizer
from roadworthy.spec.transforms import Argmax, MultiDiscrete

Arrays = dict[str, Any]


class Stepped:
    """The rebuilt actor; `reset` starts the rows of a mask anew."""

    def __init__(self, source: Any, rows: int) -> None:
        assert isinstance(source, rw.Source)
        self.source = source
        self.normalizers = {n: normalizer(each) for n, each in source.normalizers().items()}
        self.steps = [action_step(step) for step in source.steps]
        self.fresh = {
            name: value.repeat_interleave(rows, dim=1 if value.ndim == 3 else 0)
            for name, value in source.memory.items()
        }
        self.memory = dict(self.fresh)

    def reset(self, mask: Any) -> None:
        for name, value in self.memory.items():
            axis = 1 if self.fresh[name].ndim == 3 else 0
            rows = torch.as_tensor(mask).reshape(
                [-1 if d == axis else 1 for d in range(value.ndim)]
            )
            self.memory[name] = torch.where(rows, self.fresh[name], value)

    def step(self, ports: Arrays, mask: Any = None) -> Arrays:
        given = {}
        for name, value in ports.items():
            tensor = torch.as_tensor(np.asarray(value)).to(self.source.example[name].dtype)
            given[name] = self.normalizers.get(name, torch.nn.Identity())(tensor)
        with torch.no_grad():
            result = self.source.module(**given, **self.memory)
            self.memory = {name: result.pop(name) for name in self.memory}
            action = result["action"]
            allowed = None if mask is None else torch.as_tensor(mask)
            for spec, step in zip(self.source.steps, self.steps, strict=True):
                masked = isinstance(spec, (Argmax, MultiDiscrete)) and spec.mask
                action = step(action, allowed if masked else None)
        return {**{n: v.numpy() for n, v in result.items()}, "action": action.numpy()}
