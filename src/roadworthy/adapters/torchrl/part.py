"""Parts: what a policy is a sequence of. Each reads and writes keys of one TensorDict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDictBase, unravel_key_list
from torch import nn

from roadworthy.adapters.torchrl.stage import NestedKey, Stage

MEMORY = "_memory"


class Part(nn.Module):
    """A step of the policy.

    `memory` maps a name to the key that is read and to the key that is written for the next
    step; `initial` has the value at which one row starts, under the same name.
    """

    def __init__(
        self,
        in_keys: Sequence[NestedKey],
        out_keys: Sequence[NestedKey],
        *,
        memory: Mapping[str, tuple[NestedKey, NestedKey]] | None = None,
        initial: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.in_keys = tuple(unravel_key_list(list(in_keys)))
        self.out_keys = tuple(unravel_key_list(list(out_keys)))
        self.memory = dict(memory or {})
        self.initial = dict(initial or {})

    def forward(self, values: TensorDictBase) -> TensorDictBase:
        raise NotImplementedError


class Plain(Part):
    """A module that does what it does."""

    def __init__(self, module: Any, in_keys: Any = None, out_keys: Any = None) -> None:
        super().__init__(
            module.in_keys if in_keys is None else in_keys,
            module.out_keys if out_keys is None else out_keys,
        )
        self.module = module

    def forward(self, values: TensorDictBase) -> TensorDictBase:
        result: TensorDictBase = self.module(values)
        return result


class Replaced(Part):
    """A module whose maths is written again; its forward hooks (`safe=True`) still run."""

    def __init__(self, module: Any, **keys: Any) -> None:
        super().__init__(**keys)
        self.module = module

    def forward(self, values: TensorDictBase) -> TensorDictBase:
        self.compute(values)
        for hook in self.module._forward_hooks.values():
            replaced = hook(self.module, (values,), values)
            values = values if replaced is None else replaced
        return values

    def compute(self, values: TensorDictBase) -> None:
        raise NotImplementedError


class StagePart(Part):
    """A transform of the environment, with its memory under keys of its own."""

    def __init__(self, stage: Stage) -> None:
        places: dict[str, NestedKey] = {name: (MEMORY, name) for name in stage.memory}
        super().__init__(
            stage.in_keys,
            stage.out_keys,
            memory={name: (key, key) for name, key in places.items()},
            initial=stage.memory,
        )
        self.places = tuple(places.values())
        self.module = stage.module

    def forward(self, values: TensorDictBase) -> TensorDictBase:
        given = [values.get(key) for key in (*self.in_keys, *self.places)]
        result = self.module(*given)
        tensors = result if isinstance(result, (tuple, list)) else (result,)
        for key, tensor in zip((*self.out_keys, *self.places), tensors, strict=True):
            values.set(key, tensor)
        return values
