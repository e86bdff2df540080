"""All that an export must leave as it was: the module, its tensors, the example, the process."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

import roadworthy as rw

_TENSORS = ("_parameters", "_buffers", "_modules")


def attributes(module: torch.nn.Module) -> dict[str, Any]:
    """Every attribute of every submodule, as the very object it is bound to."""
    return {
        f"{path}.{key}": value
        for path, each in module.named_modules()
        for key, value in vars(each).items()
        if key not in _TENSORS
    }


def tensors(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    held = {key: v for key, v in attributes(module).items() if isinstance(v, torch.Tensor)}
    return held | dict(module.named_parameters()) | dict(module.named_buffers())


def facts(source: rw.Source) -> dict[str, Any]:
    """All that must not change, in comparable form."""
    module = source.module
    own = tensors(module)
    return {
        "attributes": {key: id(value) for key, value in attributes(module).items()},
        "training": {path: each.training for path, each in module.named_modules()},
        "objects": {key: (id(v), v.data_ptr(), v.requires_grad) for key, v in own.items()},
        "values": {key: v.detach().numpy().tobytes() for key, v in own.items()},
        "gradients": {key: None if v.grad is None else v.grad.tolist() for key, v in own.items()},
        "example": {key: value.tolist() for key, value in source.tensors.items()},
        "process": process(),
    }


def process() -> dict[str, Any]:
    return {
        "torch": torch.get_rng_state().tolist(),
        "numpy": np.random.get_state()[1].tolist(),
        "python": random.getstate(),
        "threads": torch.get_num_threads(),
        "attention": torch.backends.mha.get_fastpath_enabled(),
        "gradients": torch.is_grad_enabled(),
    }


def give_gradients(module: torch.nn.Module) -> None:
    """Changes `module`: every parameter has a gradient, and every second one is frozen."""
    for index, parameter in enumerate(module.parameters()):
        parameter.grad = torch.full_like(parameter, 0.5)
        parameter.requires_grad_(index % 2 == 0)


def differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return [key for key in before if before[key] != after[key]]
