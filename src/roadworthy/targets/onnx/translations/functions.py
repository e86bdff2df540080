"""atan2, logarithms and exponentials that are right at their corners."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir
import torch

from roadworthy.targets.onnx.translations.arithmetic import negative
from roadworthy.targets.onnx.translations.writing import integer, like, op

_aten = torch.ops.aten


def atan2(self: Any, other: Any) -> Any:
    """The angle in the first quadrant, then mirrored by the signs, those of zeros among them."""
    zero, one, minus = (like(each, self) for each in (0.0, 1.0, -1.0))
    y, x = op.Abs(self), op.Abs(other)
    # 0 / 0 is an angle of 0 and ∞ / ∞ one of 45°.
    same = op.Where(op.Equal(y, zero), zero, one)
    angle = op.Atan(op.Where(op.Equal(y, x), same, op.Div(y, x)))
    angle = op.Where(negative(other), op.Sub(like(math.pi, self), angle), angle)
    return op.Mul(angle, op.Where(negative(self), minus, one))


def deg2rad(self: Any) -> Any:
    """Times π / 180 in the value's own dtype: torchlib has the number in float32."""
    return op.Mul(_floating(self), like(math.pi / 180, _floating(self)))


def rad2deg(self: Any) -> Any:
    return op.Mul(_floating(self), like(180 / math.pi, _floating(self)))


def _floating(value: Any) -> Any:
    return value if value.dtype.is_floating_point() else op.Cast(value, to=ir.DataType.FLOAT)


def expm1(self: Any) -> Any:
    """eˣ − 1; near zero from the hyperbolic tangent, where the difference would cancel."""
    return expm1_of(self, self)


special_expm1 = expm1


def expm1_of(x: Any, own: Any) -> Any:
    """eˣ − 1 of a value whose dtype is that of `own`: values on the way have none yet."""
    one, two = like(1.0, own), like(2.0, own)
    half = op.Tanh(op.Div(x, two))
    near = op.Div(op.Mul(two, half), op.Sub(one, half))
    far = op.Sub(op.Exp(x), one)
    return op.Where(op.Less(op.Abs(x), one), near, far)


def log1p(self: Any) -> Any:
    """log(1 + x), put right by how much of x was lost in 1 + x."""
    return log1p_of(self, self)


special_log1p = log1p


def log1p_of(x: Any, own: Any) -> Any:
    one, inf = like(1.0, own), like(math.inf, own)
    total = op.Add(x, one)
    logarithm = op.Log(total)
    corrected = op.Mul(logarithm, op.Div(x, op.Sub(total, one)))
    # Where nothing was left of x, log(1 + x) is x; where 1 + x is infinite, there is no quotient.
    corrected = op.Where(op.Equal(total, inf), logarithm, corrected)
    return op.Where(op.Equal(total, one), x, corrected)


def log_sigmoid(self: Any) -> Any:
    if self.dtype == ir.DataType.DOUBLE:  # onnxruntime has no Softplus of it
        return op.Sub(op.Min(self, like(0.0, self)), log1p_of(op.Exp(op.Neg(op.Abs(self))), self))
    return op.Sub(like(0.0, self), op.Softplus(op.Neg(self)))


def logaddexp(self: Any, other: Any) -> Any:
    """max + log(1 + e^−|difference|): no exponential overflows."""
    below = op.Neg(_apart(self, other))
    if self.dtype == ir.DataType.DOUBLE:  # onnxruntime has no Softplus of it
        return op.Add(op.Max(self, other), log1p_of(op.Exp(below), self))
    return op.Add(op.Max(self, other), op.Softplus(below))


def logaddexp2(self: Any, other: Any) -> Any:
    share = op.Pow(like(2.0, self), op.Neg(_apart(self, other)))
    logarithm = op.Div(log1p_of(share, self), like(math.log(2.0), self))
    return op.Add(op.Max(self, other), logarithm)


def _apart(self: Any, other: Any) -> Any:
    """How far two numbers are apart: equal infinities not at all."""
    return op.Abs(op.Where(op.Equal(self, other), like(0.0, self), op.Sub(self, other)))


def logsumexp(self: Any, dim: Sequence[int], keepdim: bool = False) -> Any:
    """With the largest taken out first: onnxruntime's own underflows below −87."""
    axes = [int(each) for each in dim]
    result = _log_sum_exp(self, axes, self)
    return result if keepdim else op.Squeeze(result, axes)


def _log_sum_exp(terms: Any, axes: list[int], own: Any) -> Any:
    most = op.ReduceMax(terms, axes, keepdims=1)
    # An infinite maximum would give ∞ − ∞.
    infinite = op.Equal(op.Abs(most), like(math.inf, own))
    most = op.Where(infinite, like(0.0, own), most)
    sums = op.ReduceSum(op.Exp(op.Sub(terms, most)), axes, keepdims=1)
    return op.Add(op.Log(sums), most)


def logcumsumexp(self: Any, dim: int) -> Any:
    """Each place as the log-sum-exp of those up to it, with a maximum of its own."""
    return _cumulated(
        self,
        dim,
        like(-math.inf, self),
        lambda terms: op.Squeeze(_log_sum_exp(terms, [-1], self), [-1]),
    )


def softmax_int(self: Any, dim: int, dtype: int | None = None) -> Any:
    """In the dtype that was asked for: torchlib casts only what came out."""
    return _over(self, dtype, lambda x: op.Softmax(x, axis=dim))


def log_softmax_int(self: Any, dim: int, dtype: int | None = None) -> Any:
    return _over(self, dtype, lambda x: op.LogSoftmax(x, axis=dim))


def mean_dim(
    self: Any, dim: Sequence[int] | None, keepdim: bool = False, dtype: int | None = None
) -> Any:
    axes = [int(each) for each in dim or range(len(self.shape))]
    keep = int(keepdim) if len(self.shape) else 1
    return _over(self, dtype, lambda x: op.ReduceMean(x, axes, keepdims=keep))


def amax(self: Any, dim: Sequence[int] = (), keepdim: bool = False) -> Any:
    """Over every axis where none is named: torchlib wants one."""
    return _extreme(op.ReduceMax, self, dim, keepdim)


def amin(self: Any, dim: Sequence[int] = (), keepdim: bool = False) -> Any:
    return _extreme(op.ReduceMin, self, dim, keepdim)


def _extreme(write: Any, self: Any, dim: Sequence[int], keepdim: bool) -> Any:
    axes = [int(each) for each in dim or range(len(self.shape))]
    return write(self, axes, keepdims=int(keepdim)) if len(self.shape) else op.Identity(self)


def _over(self: Any, dtype: int | None, write: Callable[[Any], Any]) -> Any:
    """Something along axes, of a value in a certain dtype; one without axes has one meanwhile."""
    given = self if dtype in (-1, None) else op.Cast(self, to=dtype)
    return write(given) if len(self.shape) else op.Squeeze(write(op.Unsqueeze(given, [0])), [0])


def cumprod(self: Any, dim: int, dtype: int = -1) -> Any:
    if dtype not in (-1, None):
        raise NotImplementedError("cumprod with another dtype")
    return _cumulated(
        self, dim, like(1, self), lambda terms: op.ReduceProd(terms, [-1], keepdims=0)
    )


def _cumulated(self: Any, dim: int, neutral: Any, reduced: Callable[[Any], Any]) -> Any:
    """Each place reduced over those up to it; the others are `neutral`."""
    rank = len(self.shape)
    if rank == 0:
        return op.Identity(self)
    axis = dim % rank
    swap = list(range(rank))
    swap[axis], swap[-1] = swap[-1], swap[axis]
    last = self if axis == rank - 1 else op.Transpose(self, perm=swap)
    size = op.Squeeze(op.Shape(last, start=rank - 1, end=rank), [0])
    places = op.Range(integer(0), size, integer(1))
    upto = op.LessOrEqual(op.Unsqueeze(places, [0]), op.Unsqueeze(places, [1]))
    result = reduced(op.Where(upto, op.Unsqueeze(last, [-2]), neutral))
    return result if axis == rank - 1 else op.Transpose(result, perm=swap)


def cdist_forward(x1: Any, x2: Any, p: float, compute_mode: int | None = None) -> Any:
    """The distances of every two rows, from their differences."""
    apart = op.Sub(op.Unsqueeze(x1, [-2]), op.Unsqueeze(x2, [-3]))
    norms = {1.0: op.ReduceL1, 2.0: op.ReduceL2}
    if p not in norms:
        raise NotImplementedError(f"cdist with p={p}")
    return norms[p](apart, [-1], keepdims=0)


def logit(self: Any, eps: float | None = None) -> Any:
    one = like(1.0, self)
    if eps is not None:
        self = op.Clip(self, like(eps, self), like(1 - eps, self))
    return op.Log(op.Div(self, op.Sub(one, self)))


def xlogy_tensor(self: Any, other: Any) -> Any:
    """x·log(y), and 0 for x = 0 unless y is NaN."""
    product = op.Mul(self, op.Log(other))
    zero = like(0.0, self)
    nothing = op.And(op.Equal(self, zero), op.Not(op.IsNaN(other)))
    return op.Where(nothing, zero, product)
