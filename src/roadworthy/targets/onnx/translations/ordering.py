"""Sorting, order statistics, running extremes and searching, as PyTorch computes them.

PyTorch counts NaN as the largest number; onnxruntime's TopK does not know it. So the order is that
of a copy with ∞ for NaN, and the values are gathered from the original.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from roadworthy.targets.onnx.translations.writing import integer, like, op

_aten = torch.ops.aten
_LAST = np.iinfo(np.int64).max


def sort(self: Any, dim: int = -1, descending: bool = False) -> Any:
    """Equal values keep their order: TopK puts the lower index first."""
    if not self.shape:
        return op.Identity(self), op.Constant(value=integer(0))
    size = op.Shape(self, start=dim % len(self.shape), end=dim % len(self.shape) + 1)
    _, indices = op.TopK(_keys(self), size, axis=dim, largest=int(descending))
    return op.GatherElements(self, indices, axis=dim), indices


def sort_stable(
    self: Any, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> Any:
    return sort(self, dim, descending)


def kthvalue(self: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The k-th smallest value along an axis, and where it stands."""
    return _ranked(self, op.Constant(value_ints=[k]), dim, keepdim)


def median_dim(self: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The lower of two middle values; NaN where there is one."""
    axis = dim % len(self.shape)
    size = op.Shape(self, start=axis, end=axis + 1)
    middle = op.Div(op.Add(size, integer([1])), integer([2]))
    values, indices = _ranked(self, middle, dim, keepdim)
    if not self.dtype.is_floating_point():
        return values, indices
    most = op.ReduceMax(_flags(op.IsNaN(self)), [dim], keepdims=int(keepdim))
    broken = op.Cast(most, to=ir.DataType.BOOL)
    first = op.ArgMax(_flags(op.IsNaN(self)), axis=dim, keepdims=int(keepdim))
    return op.Where(broken, like(math.nan, self), values), op.Where(broken, first, indices)


def nanmedian_dim(self: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The median of what is no NaN; NaN where nothing else is there."""
    _, order = sort(self, dim)
    zero, one, two = integer(0), integer(1), integer(2)
    numbers = op.Cast(op.Not(op.IsNaN(self)), to=ir.DataType.INT64)
    count = op.ReduceSum(numbers, [dim], keepdims=1)
    place = op.Max(op.Div(op.Sub(count, one), two), zero)
    indices = op.GatherElements(order, place, axis=dim)
    values = op.GatherElements(self, indices, axis=dim)
    return (values, indices) if keepdim else (op.Squeeze(values, [dim]), op.Squeeze(indices, [dim]))


def _ranked(self: Any, rank: Any, dim: int, keepdim: bool) -> Any:
    _, indices = op.TopK(_keys(self), rank, axis=dim, largest=0)
    last = op.Slice(indices, [-1], [_LAST], [dim])
    values = op.GatherElements(self, last, axis=dim)
    return (values, last) if keepdim else (op.Squeeze(values, [dim]), op.Squeeze(last, [dim]))


def cummax(self: Any, dim: int) -> Any:
    """The largest value so far, and the last place where it stood; NaN stays, once met."""
    return _running(self, dim, largest=True)


def cummin(self: Any, dim: int) -> Any:
    return _running(self, dim, largest=False)


def _running(self: Any, dim: int, *, largest: bool) -> Any:
    rank = len(self.shape)
    swap = list(range(rank))
    swap[dim], swap[-1] = swap[-1], swap[dim]
    moved = op.Transpose(self, perm=swap)
    size = op.Squeeze(op.Shape(moved, start=rank - 1, end=rank), [0])
    places = op.Range(integer(0), size, integer(1))
    later = op.Greater(op.Unsqueeze(places, [0]), op.Unsqueeze(places, [1]))
    reduce = op.ReduceMax if largest else op.ReduceMin
    end = _end(self, largest=not largest)
    values = reduce(op.Where(later, end, op.Unsqueeze(moved, [-2])), [-1], keepdims=0)
    each = op.Unsqueeze(moved, [-2])
    hits = op.Equal(each, op.Unsqueeze(values, [-1]))
    if self.dtype.is_floating_point():
        broken = op.And(op.IsNaN(each), op.Not(later))
        met = op.Cast(op.ReduceMax(_flags(broken), [-1], keepdims=0), to=ir.DataType.BOOL)
        values = op.Where(met, like(math.nan, self), values)
        hits = op.Or(op.And(hits, op.Not(op.Unsqueeze(met, [-1]))), broken)
    told = op.Where(op.And(hits, op.Not(later)), places, integer(0))
    indices = op.ReduceMax(told, [-1], keepdims=0)
    return op.Transpose(values, perm=swap), op.Transpose(indices, perm=swap)


def searchsorted_tensor(
    sorted_sequence: Any,
    self: Any,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """How many of the sorted values lie before each value; NaN goes behind all of them."""
    if sorter is not None:
        raise NotImplementedError("searchsorted with a sorter")
    each = op.Unsqueeze(self, [-1])
    rows = (
        op.Unsqueeze(sorted_sequence, [-2]) if len(sorted_sequence.shape) > 1 else sorted_sequence
    )
    behind = op.Greater if right or side == "right" else op.GreaterOrEqual
    before = _flags(op.Not(behind(rows, each)))
    count = op.ReduceSum(op.Cast(before, to=ir.DataType.INT64), [-1], keepdims=0)
    return op.Cast(count, to=ir.DataType.INT32) if out_int32 else count


def bucketize_tensor(
    self: Any, boundaries: Any, out_int32: bool = False, right: bool = False
) -> Any:
    return searchsorted_tensor(boundaries, self, out_int32, right)


def fmax(self: Any, other: Any) -> Any:
    """The larger of two; of a number and NaN the number."""
    return _beside_nan(op.Max, self, other)


def fmin(self: Any, other: Any) -> Any:
    return _beside_nan(op.Min, self, other)


def _beside_nan(chosen: Any, self: Any, other: Any) -> Any:
    if not self.dtype.is_floating_point():
        return chosen(self, other)
    one, two = op.IsNaN(self), op.IsNaN(other)
    return op.Where(one, other, op.Where(two, self, chosen(self, other)))


def _keys(value: Any) -> Any:
    """What is sorted in place of a value: numbers that TopK knows, ∞ for NaN."""
    if value.dtype.is_floating_point():
        return op.Where(op.IsNaN(value), like(math.inf, value), value)
    known = (ir.DataType.INT32, ir.DataType.INT64)
    return value if value.dtype in known else op.Cast(value, to=ir.DataType.INT64)


def _flags(value: Any) -> Any:
    """Booleans as numbers that can be reduced."""
    return op.Cast(value, to=ir.DataType.INT32)


def _end(value: Any, *, largest: bool) -> ir.TensorProtocol:
    """The largest number that its dtype has, or the smallest."""
    if value.dtype.is_floating_point():
        return like(math.inf if largest else -math.inf, value)
    limits = np.iinfo(value.dtype.numpy())
    return like(limits.max if largest else limits.min, value)
