"""ε-greedy: with probability ε, decided row by row, an action drawn evenly from the space."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.utils import expand_as_right
from torch import Tensor
from torchrl.data import Bounded, Categorical, Composite, MultiCategorical, MultiOneHot, OneHot
from torchrl.modules import EGreedyModule

from roadworthy.adapters.torchrl.keys import parts_of
from roadworthy.adapters.torchrl.part import Replaced
from roadworthy.errors import ExportError


class Greedy(Replaced):
    """TorchRL's `EGreedyModule` while it explores, for any number of rows.

    It makes the same draws as TorchRL, in the same order: a coin for each row, then an action.
    """

    def __init__(self, module: EGreedyModule) -> None:
        super().__init__(module, in_keys=module.in_keys, out_keys=module.out_keys)
        spec = module.spec
        self.space = spec[module.action_key] if isinstance(spec, Composite) else spec
        if not _drawable(self.space):
            raise ExportError(
                f"ε-greedy over a {type(self.space).__name__} of {self.space.dtype} cannot be "
                "exported",
                code="RW143",
                where="EGreedyModule",
                hint="choose exploration='deterministic', or an action spec that is Categorical, "
                "OneHot, or Bounded of floats",
            )

    def compute(self, values: TensorDictBase) -> None:
        *parents, last = parts_of(self.module.action_key)
        owner = values.get(tuple(parents)) if parents else values
        action = owner.get(last)
        mask = values.get(self.module.action_mask_key) if self.module.action_mask_key else None
        coin = torch.rand(owner.shape) < self.module.eps
        drawn = self._drawn(action, mask)
        owner.set(last, torch.where(expand_as_right(coin, action), drawn, action))

    def _drawn(self, action: Tensor, mask: Tensor | None) -> Tensor:
        space: Any = self.space
        if isinstance(space, Bounded):
            low, high = space.space.low, space.space.high
            share = torch.zeros_like(action).uniform_()
            inside: Tensor = low.to(action.dtype) + share * (high - low).to(action.dtype)
            return inside
        one_hot = isinstance(space, OneHot)
        shape = action.shape[:-1] if one_hot else action.shape
        count = int(space.space.n)
        if mask is None:
            index = torch.randint(0, count, shape)
        else:
            weights = mask.flatten(0, -2).to(torch.float32)
            index = torch.multinomial(weights, 1).reshape(shape)
        if one_hot:
            return torch.nn.functional.one_hot(index, count).to(action.dtype)
        return index.to(action.dtype)


def _drawable(space: Any) -> bool:
    if isinstance(space, (MultiOneHot, MultiCategorical)):
        return False
    if isinstance(space, Bounded):
        return bool(space.dtype.is_floating_point)
    return isinstance(space, (OneHot, Categorical))
