"""A stage: one transform of an environment as a pure module with named keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

# What tensordict calls a nested key: "obs", or ("agents", "obs").
NestedKey = str | tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stage:
    """What stands before a policy, or behind it.

    `module` takes the tensors of `in_keys` and then the memory, and returns those of `out_keys`
    and then the memory, batch axis first. `memory` maps a name to the value at which one row
    starts, with a batch axis of size 1.
    """

    name: str
    in_keys: tuple[NestedKey, ...]
    out_keys: tuple[NestedKey, ...]
    module: torch.nn.Module
    memory: Mapping[str, torch.Tensor] = field(default_factory=dict)
