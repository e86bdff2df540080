"""Squeezing, sums along an axis, scattering, writing under a mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
import torch
from onnxscript.function_libs.torch_lib.ops.core import aten_index, aten_index_put

from roadworthy.targets.onnx.translations.writing import op

_aten = torch.ops.aten
_NARROW = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
# Types that onnxruntime has a Where for.
_CHOSEN = (
    ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.INT64,
    ir.DataType.INT32, ir.DataType.INT8, ir.DataType.UINT8,
)  # fmt: skip


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


def index_tensor(self: Any, indices: Sequence[Any]) -> Any:
    """`table[i]`: places of int32 too, which ONNX's operator does not take."""
    return aten_index(self, _as_places(indices))


def _as_places(indices: Sequence[Any]) -> list[Any]:
    found = list(indices)
    for position, each in enumerate(found):
        if each is not None and each.dtype == ir.DataType.INT32:
            found[position] = op.Cast(each, to=ir.DataType.INT64)
            # torchlib asks for them, and a value on the way has none yet.
            found[position].shape, found[position].dtype = each.shape, ir.DataType.INT64
    return found


def index_put(self: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    """`x[x < 0] = 0` and `x[:, mask] = 0` are choices, where every place gets the same.

    The list of places that ONNX would write to has a size that nobody knows.
    """
    *before, mask = indices
    is_mask = mask is not None and mask.dtype == ir.DataType.BOOL and self.dtype in _CHOSEN
    if is_mask and not accumulate and all(each is None for each in before):
        behind = len(self.shape) - len(before) - len(mask.shape)
        if len(values.shape) <= behind or all(size == 1 for size in values.shape):
            axes = list(range(len(mask.shape), len(mask.shape) + behind))
            return op.Where(op.Unsqueeze(mask, axes) if axes else mask, values, self)
    return aten_index_put(self, _as_places(indices), values, accumulate)


def where_self(condition: Any, self: Any, other: Any) -> Any:
    """Also of the types that onnxruntime's Where lacks."""
    if self.dtype == ir.DataType.BOOL:
        return op.Or(op.And(condition, self), op.And(op.Not(condition), other))
    if self.dtype in _SHORT:
        wide = (op.Cast(each, to=ir.DataType.INT32) for each in (self, other))
        return op.Cast(op.Where(condition, *wide), to=self.dtype)
    return op.Where(condition, self, other)


# Whole numbers that onnxruntime's Where lacks, and that fit in an int32.
_SHORT = (ir.DataType.INT8, ir.DataType.INT16, ir.DataType.UINT16)
