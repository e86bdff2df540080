"""Which elements of an environment's memory a computation really uses, not merely touches.

Code takes the poses of all bodies and keeps one of them. So values are followed: where they are
only moved about (indexed, joined, reshaped), so are their addresses; whatever else is done with
them uses them. Comparing counts as well, which no gradient would show.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from roadworthy.operators.asking import writes
from roadworthy.operators.captured import row_of
from roadworthy.spec.port import Array

_NOWHERE = 0


class Provenance(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows every value that is read from memory; `used` are the addresses that mattered."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._shadows: dict[int, torch.Tensor] = {}
        # Kept alive, so that no other tensor gets the identity of one that is gone.
        self._alive: list[torch.Tensor] = []
        self._used: list[Array] = []

    @property
    def used(self) -> Array:
        """The addresses of all elements that were used, sorted."""
        found: Array = np.unique(np.concatenate([np.zeros(0, np.int64), *self._used]))
        used: Array = found[found != _NOWHERE]
        return used

    def use(self, tensor: torch.Tensor) -> None:
        """Notes that a tensor is a result: what it was made of has been used."""
        self._used.append(self._shadow(tensor).numpy().ravel().copy())

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        row = row_of(func)
        in_place = writes(func) and not row.overwrites
        # A cast may leave PyTorch, where nobody sees what is done with it: `x.cpu().numpy()`.
        kept = row.casts or in_place or kwargs.get("dtype") is not None
        if row.values and not kept:
            return self._moved(func, args, kwargs)
        overwritten = (row.overwrites and writes(func)) or row.name == "index_put"
        for index, each in enumerate((*args, *kwargs.values())):
            if index == 0 and overwritten:
                continue  # what was there does not matter
            for tensor in tree_leaves(each):
                if isinstance(tensor, torch.Tensor):
                    self.use(tensor)
        result = func(*args, **kwargs)
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self._remember(tensor, torch.zeros(tensor.shape, dtype=torch.int64))
        return result

    def _moved(self, func: Any, args: Any, kwargs: Any) -> Any:
        # Indices are themselves values that matter, and no address.
        first, *others = args
        if row_of(func).name in ("index", "index_select"):
            for each in tree_leaves(others):
                if isinstance(each, torch.Tensor):
                    self.use(each)
            shadows = (self._shadow(first), *others)
        else:
            shadows = tree_map_only(torch.Tensor, self._shadow, tuple(args))
        result = func(*args, **kwargs)
        moved = func(*shadows, **{k: v for k, v in kwargs.items() if k == "memory_format"})
        for tensor, shadow in zip(tree_leaves(result), tree_leaves(moved), strict=True):
            if isinstance(tensor, torch.Tensor):
                self._remember(tensor, shadow)
        return result

    def _remember(self, tensor: torch.Tensor, shadow: torch.Tensor) -> None:
        self._alive.append(tensor)
        self._shadows[id(tensor)] = shadow

    def _shadow(self, tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in self._shadows:
            self._remember(tensor, torch.from_numpy(addresses(tensor)))
        return self._shadows[id(tensor)]


def addresses(tensor: torch.Tensor) -> Array:
    """The address of each element, in the shape of the tensor."""
    found: Array = np.full(tuple(tensor.shape), tensor.data_ptr(), dtype=np.int64)
    for axis, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        steps = np.arange(size, dtype=np.int64) * (stride * tensor.element_size())
        found += steps.reshape(-1, *(1,) * (tensor.ndim - axis - 1))
    return found


def used_by(call: Callable[[], list[torch.Tensor]]) -> Array:
    """The addresses of all memory that the results of a call depend on."""
    with Provenance() as followed:
        results = call()
    for each in results:
        followed.use(each)
    found: Array = followed.used
    return found
