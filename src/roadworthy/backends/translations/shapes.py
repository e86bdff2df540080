"""Squeezing, sums along an axis, scattering: where onnxruntime is stricter than PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
import torch

from roadworthy.backends.translations.writing import op

_aten = torch.ops.aten
_NARROW = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


def squeeze_dim(self: Any, dim: int) -> Any:
    """Without the axis if its size is 1; as it is if not, which ONNX refuses."""
    return squeeze_dims(self, [dim])


def squeeze_dims(self: Any, dim: Sequence[int]) -> Any:
    rank = len(self.shape)
    axes = [each % rank for each in dim if rank and self.shape[each % rank] == 1]
    return op.Squeeze(self, axes) if axes else op.Identity(self)


def cumsum(self: Any, dim: int, dtype: int = -1) -> Any:
    """Sums of narrow floats are made in float32, as PyTorch makes them; ONNX has no others."""
    if not self.shape:
        return op.Identity(self)
    own = self.dtype if self.dtype.is_floating_point() else ir.DataType.INT64
    wanted = own if dtype in (-1, None) else ir.DataType(dtype)
    inside = ir.DataType.FLOAT if wanted in _NARROW else wanted
    terms = self if self.dtype == inside else op.Cast(self, to=inside)
    summed = op.CumSum(terms, op.Constant(value_int=dim))
    return summed if inside == wanted else op.Cast(summed, to=wanted)


def scatter_add(self: Any, dim: int, index: Any, src: Any) -> Any:
    """What is added may be larger than the index, and only its beginning is taken."""
    if not self.shape:
        return op.Add(self, src)
    if not index.shape:
        index, src = op.Reshape(index, [1]), op.Reshape(src, [1])
    axes = list(range(len(self.shape)))
    taken = op.Slice(src, [0] * len(axes), op.Shape(index), axes)
    return op.ScatterElements(self, index, taken, axis=dim, reduction="add")


TABLE = {
    _aten.scatter_add.default: scatter_add,
    _aten.squeeze.dim: squeeze_dim,
    _aten.squeeze.dims: squeeze_dims,
    _aten.cumsum.default: cumsum,
}
