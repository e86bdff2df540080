"""A branch on a tensor, as a choice between two tensors."""

from __future__ import annotations

from typing import Any

import torch


class Choice:
    """Stands for one `if` of the author's; remembers which sides were taken outside of a graph."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.sides: set[bool] = set()

    def __call__(self, condition: Any, yes: Any, no: Any) -> Any:
        if not isinstance(condition, torch.Tensor):
            return yes if condition else no
        for side in (yes, no):
            if not isinstance(side, torch.Tensor):
                raise TypeError(f"a side of the branch is a {type(side).__name__}, no tensor")
        if yes.shape != no.shape or yes.dtype != no.dtype:
            raise TypeError("the sides of the branch differ in shape or dtype")
        if not torch.compiler.is_exporting():
            self.sides.add(bool(condition))
        # Of one element, as `if` demands: anything else fails here, and is not fixed.
        return torch.where(condition.reshape(()), yes, no)
