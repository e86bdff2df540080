"""PyTorch set up so that a graph can be written down, and set back afterwards."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._dynamo import trace_rules
from torch.distributions import Distribution
from torch.nn.modules import transformer
from torch.overrides import TorchFunctionMode

from roadworthy.errors.quiet import quiet


@contextmanager
def traceable() -> Iterator[None]:
    """Without gradients, without shortcuts that a graph cannot hold, and without noise."""
    # The fast path of multi-head attention is one opaque operator that ONNX does not have.
    fast = torch.backends.mha.get_fastpath_enabled()
    # A distribution looks at the values of its parameters to validate them; a graph has none.
    validate = Distribution._validate_args
    # A Transformer looks at the values of its mask to see whether it is causal.
    detect = transformer._detect_is_causal_mask
    # Dynamo learns what is a builtin when it is first asked: before one of them is another.
    trace_rules.is_builtin_callable(_len)
    torch.backends.mha.set_fastpath_enabled(False)
    transformer._detect_is_causal_mask = _as_it_was_said
    builtins.len = _symbolic_len
    Distribution.set_default_validate_args(False)
    try:
        with torch.no_grad(), quiet(), _WrittenOut(), _followed_batches():
            yield
    finally:
        builtins.len = _len
        transformer._detect_is_causal_mask = detect
        torch.backends.mha.set_fastpath_enabled(fast)
        Distribution.set_default_validate_args(validate)


_len = builtins.len


def _symbolic_len(value: Any, /) -> Any:
    """The rows of a tensor as its shape tells them: `len` itself gives a number, and freezes it."""
    if isinstance(value, torch.Tensor) and value.ndim:
        return value.shape[0]
    return _len(value)


def _as_it_was_said(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
    """Whether the caller said that the mask is causal; if not, it is applied as it stands."""
    return bool(is_causal)


@contextmanager
def _followed_batches() -> Iterator[None]:
    """TensorDicts go into a vmap by the function that torch.export follows, not by the one below.

    Otherwise their tensors would be constants of the graph, in a form that ends with the vmap.
    """
    holder: Any = sys.modules.get("tensordict._td")
    if holder is None:
        yield
        return
    from torch._functorch import predispatch

    before = holder._add_batch_dim
    holder._add_batch_dim = predispatch._add_batch_dim
    try:
        yield
    finally:
        holder._add_batch_dim = before


class _WrittenOut(TorchFunctionMode):
    """Functions that look at sizes as numbers, in operators that do not."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _WRITTEN_OUT.get(func, func)(*args, **(kwargs or {}))


def _take_along_dim(input: torch.Tensor, indices: torch.Tensor, dim: int | None = None) -> Any:  # noqa: A002
    """`torch.take_along_dim` by gather: its own code compares the sizes of both as numbers."""
    if dim is None:
        return input.flatten().gather(0, indices.flatten())
    axis = dim % input.ndim
    common = [
        taken if isinstance(own, int) and own == 1 else own
        for own, taken in zip(input.shape, indices.shape, strict=True)
    ]
    own, taken = list(common), list(common)
    own[axis], taken[axis] = input.shape[axis], indices.shape[axis]
    return input.expand(own).gather(axis, indices.expand(taken))


def _cdist(x1: torch.Tensor, x2: torch.Tensor, p: float = 2.0, compute_mode: str = "") -> Any:
    """`torch.cdist` by one way for every number of rows: the differences themselves."""
    return torch.cdist(x1, x2, p, "donot_use_mm_for_euclid_dist")


_WRITTEN_OUT: dict[Any, Any] = {
    torch.take_along_dim: _take_along_dim,
    torch.Tensor.take_along_dim: _take_along_dim,
    torch.cdist: _cdist,
}
