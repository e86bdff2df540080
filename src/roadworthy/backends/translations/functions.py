"""atan2, logarithms and exponentials that are right at their corners."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir
import torch
from onnxscript import opset18 as op

from roadworthy.backends.translations.arithmetic import negative

_aten = torch.ops.aten


def atan2(self: Any, other: Any) -> Any:
    """The angle in the first quadrant, then mirrored by the signs, those of zeros among them."""
    zero, one, minus = (_like(each, self) for each in (0.0, 1.0, -1.0))
    y, x = op.Abs(self), op.Abs(other)
    # 0 / 0 is an angle of 0 and ∞ / ∞ one of 45°.
    same = op.Where(op.Equal(y, zero), zero, one)
    angle = op.Atan(op.Where(op.Equal(y, x), same, op.Div(y, x)))
    angle = op.Where(negative(other), op.Sub(_like(math.pi, self), angle), angle)
    return op.Mul(angle, op.Where(negative(self), minus, one))


def expm1(self: Any) -> Any:
    """eˣ − 1; near zero from the hyperbolic tangent, where the difference would cancel."""
    one, two = _like(1.0, self), _like(2.0, self)
    half = op.Tanh(op.Div(self, two))
    near = op.Div(op.Mul(two, half), op.Sub(one, half))
    far = op.Sub(op.Exp(self), one)
    # A product with 1 keeps the sign of zero, which onnxruntime's Where loses.
    return op.Where(op.Less(op.Abs(self), one), near, far)


def log1p(self: Any) -> Any:
    """log(1 + x), put right by how much of x was lost in 1 + x."""
    one, inf = _like(1.0, self), _like(math.inf, self)
    sum_ = op.Add(self, one)
    log = op.Log(sum_)
    corrected = op.Mul(log, op.Div(self, op.Sub(sum_, one)))
    # Where nothing was left of x, log(1 + x) is x; where 1 + x is infinite, there is no quotient.
    return op.Where(
        op.Equal(sum_, one), self, op.Where(op.Equal(sum_, inf), log, corrected)
    )


def log_sigmoid(self: Any) -> Any:
    return op.Sub(_like(0.0, self), op.Softplus(op.Neg(self)))


def logaddexp(self: Any, other: Any) -> Any:
    """max + log(1 + e^−|difference|): no exponential overflows."""
    return _added(self, other, 1.0)


def logaddexp2(self: Any, other: Any) -> Any:
    return _added(self, other, math.log(2.0))


def _added(self: Any, other: Any, log_base: float) -> Any:
    base = _like(log_base, self)
    # Of equal ones the difference is 0, of equal infinities too.
    apart = op.Where(op.Equal(self, other), _like(0.0, self), op.Sub(self, other))
    rest = op.Softplus(op.Neg(op.Mul(op.Abs(apart), base)))
    return op.Add(op.Max(self, other), op.Div(rest, base))


def logcumsumexp(self: Any, dim: int) -> Any:
    """Each place as the log-sum-exp of those up to it, with a maximum of its own."""
    rank = len(self.shape)
    if rank == 0:
        return op.Identity(self)
    axis = dim % rank
    swap = list(range(rank))
    swap[axis], swap[-1] = swap[-1], swap[axis]
    last = self if axis == rank - 1 else op.Transpose(self, perm=swap)
    size = op.Squeeze(op.Shape(last, start=rank - 1, end=rank), [0])
    places = op.Range(_integer(0), size, _integer(1))
    upto = op.LessOrEqual(op.Unsqueeze(places, [0]), op.Unsqueeze(places, [1]))
    zero, low = _like(0.0, self), _like(-math.inf, self)
    terms = op.Where(upto, op.Unsqueeze(last, [-2]), low)
    most = op.ReduceMax(terms, [-1], keepdims=1)
    # An infinite maximum would give ∞ − ∞.
    most = op.Where(op.Equal(op.Abs(most), _like(math.inf, self)), zero, most)
    sums = op.ReduceSum(op.Exp(op.Sub(terms, most)), [-1], keepdims=1)
    result = op.Squeeze(op.Add(op.Log(sums), most), [-1])
    return result if axis == rank - 1 else op.Transpose(result, perm=swap)


def logit(self: Any, eps: float | None = None) -> Any:
    one = _like(1.0, self)
    if eps is not None:
        self = op.Clip(self, op.CastLike(eps, self), op.CastLike(1 - eps, self))
    return op.Log(op.Div(self, op.Sub(one, self)))


def xlogy(self: Any, other: Any) -> Any:
    """x·log(y), and 0 for x = 0 unless y is NaN."""
    product = op.Mul(self, op.Log(other))
    zero = _like(0.0, self)
    nothing = op.And(op.Equal(self, zero), op.Not(op.IsNaN(other)))
    return op.Where(nothing, zero, product)


def _like(number: float, value: Any) -> ir.TensorProtocol:
    return ir.tensor(number, dtype=value.dtype)


def _integer(number: int) -> ir.TensorProtocol:
    return ir.tensor(number, dtype=ir.DataType.INT64)


TABLE = {
    _aten.atan2.default: atan2,
    _aten.expm1.default: expm1,
    _aten.special_expm1.default: expm1,
    _aten.log1p.default: log1p,
    _aten.special_log1p.default: log1p,
    _aten.log_sigmoid.default: log_sigmoid,
    _aten.logaddexp.default: logaddexp,
    _aten.logaddexp2.default: logaddexp2,
    _aten.logcumsumexp.default: logcumsumexp,
    _aten.logit.default: logit,
    _aten.xlogy.Tensor: xlogy,
}
