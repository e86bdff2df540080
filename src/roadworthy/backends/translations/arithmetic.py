"""Remainders, quotients, rounding, signs, powers and clamps, as PyTorch computes them."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import torch
from onnxscript import opset18 as op

_aten = torch.ops.aten


def negative(x: Any) -> Any:
    """Whether a float is below zero or is −0.0: 1 / −0.0 is −∞, and −∞ + 1 / −∞ is below zero."""
    return op.Less(op.Add(x, op.Reciprocal(x)), _like(0.0, x))


def remainder(self: Any, other: Any) -> Any:
    """`a % b`: exact where a − ⌊a / b⌋·b is off by the rounding of a / b, times b."""
    self, other = _both(self, other)
    if not self.dtype.is_floating_point():
        return op.Mod(self, other)
    rest = op.Mod(self, other, fmod=1)
    return op.Where(_turned(rest, other), op.Add(rest, other), rest)


def remainder_scalar(self: Any, other: float) -> Any:
    return remainder(self, other)


def remainder_scalar_tensor(self: float, other: Any) -> Any:
    return remainder(self, other)


def floor_divide(self: Any, other: Any) -> Any:
    """`a // b`: of floats from the exact remainder, of integers without a detour over floats."""
    self, other = _both(self, other)
    rest = op.Mod(self, other, fmod=1)
    one = _like(1, self)
    if not self.dtype.is_floating_point():
        quotient = op.Div(self, other)
        return op.Where(_turned(rest, other), op.Sub(quotient, one), quotient)
    zero, half = _like(0.0, self), _like(0.5, self)
    plain = op.Div(self, other)
    whole = op.Div(op.Sub(self, rest), other)
    whole = op.Where(_turned(rest, other), op.Sub(whole, one), whole)
    floor = op.Floor(whole)
    floor = op.Where(op.Greater(op.Sub(whole, floor), half), op.Add(floor, one), floor)
    return op.Where(op.Equal(other, zero), plain, floor)


def divide(self: Any, other: Any, rounding_mode: str | None = None) -> Any:
    """`torch.div` with a rounding mode."""
    self, other = _both(self, other)
    if rounding_mode == "floor":
        return floor_divide(self, other)
    if not self.dtype.is_floating_point():
        if rounding_mode == "trunc":
            return op.Div(self, other)
        single = ir.DataType.FLOAT
        return op.Div(op.Cast(self, to=single), op.Cast(other, to=single))
    quotient = op.Div(self, other)
    return trunc(quotient) if rounding_mode == "trunc" else quotient


def divide_scalar(self: Any, other: float, rounding_mode: str | None = None) -> Any:
    return divide(self, other, rounding_mode)


def fmod_scalar(self: Any, other: float) -> Any:
    self, other = _both(self, other)
    return op.Mod(self, other, fmod=1)


def trunc(self: Any) -> Any:
    if not self.dtype.is_floating_point():
        return op.Identity(self)
    return op.Where(op.Less(self, _like(0.0, self)), op.Ceil(self), op.Floor(self))


def frac(self: Any) -> Any:
    return op.Sub(self, trunc(self))


def sign(self: Any) -> Any:
    """0 for NaN, as in PyTorch."""
    if self.dtype == ir.DataType.BOOL:
        return op.Identity(self)
    if not self.dtype.is_floating_point():
        return op.Sign(self)
    return op.Where(op.IsNaN(self), _like(0.0, self), op.Sign(self))


def signbit(self: Any) -> Any:
    if self.dtype.is_floating_point():
        return negative(self)
    return op.Less(self, _like(0, self))


def copysign(self: Any, other: Any) -> Any:
    size = op.Abs(self)
    minus, plus = _like(-1.0, self), _like(1.0, self)
    return op.Mul(size, op.Where(negative(other), minus, plus))


def power(self: Any, exponent: float) -> Any:
    """Roots as roots: C's pow gives ∞ for the root of −∞, and PyTorch NaN."""
    if self.dtype.is_floating_point():
        if exponent == 0.5:
            return op.Sqrt(self)
        if exponent == -0.5:
            return op.Reciprocal(op.Sqrt(self))
        return op.Pow(self, _like(exponent, self))
    if isinstance(exponent, int):
        return op.Pow(self, _like(exponent, self))
    return op.Pow(op.Cast(self, to=ir.DataType.FLOAT), ir.tensor(exponent, ir.DataType.FLOAT))


def clamp(self: Any, min: float | None = None, max: float | None = None) -> Any:
    """Clip with one end takes the largest number for the other, and makes ∞ finite."""
    if min is not None and max is not None:
        return op.Clip(self, op.CastLike(min, self), op.CastLike(max, self))
    if min is not None:
        return op.Max(self, _like(min, self))
    if max is not None:
        return op.Min(self, _like(max, self))
    return op.Identity(self)


def clamp_min(self: Any, min: float) -> Any:
    return op.Max(self, _like(min, self))


def clamp_max(self: Any, max: float) -> Any:
    return op.Min(self, _like(max, self))


def hypot(self: Any, other: Any) -> Any:
    """√(a² + b²) without squares that overflow or vanish."""
    a, b = op.Abs(self), op.Abs(other)
    large, small = op.Max(a, b), op.Min(a, b)
    zero, one = _like(0.0, self), _like(1.0, self)
    # Equal ones divide to 1, infinities too.
    ratio = op.Where(op.Equal(a, b), one, op.Div(small, large))
    ratio = op.Where(op.Equal(large, zero), zero, ratio)
    return op.Mul(large, op.Sqrt(op.Add(one, op.Mul(ratio, ratio))))


def _turned(rest: Any, other: Any) -> Any:
    """Whether a remainder towards zero has the other sign than what was divided by."""
    zero = _like(0, rest)
    return op.And(
        op.Not(op.Equal(rest, zero)), op.Xor(op.Less(rest, zero), op.Less(other, zero))
    )


def _both(self: Any, other: Any) -> tuple[Any, Any]:
    """Two operands, of which one may be a Python number."""
    if isinstance(self, (int, float)):
        return op.Constant(value=_like(self, other)), other
    if isinstance(other, (int, float)):
        return self, op.Constant(value=_like(other, self))
    return self, other


def _like(number: float, value: Any) -> ir.TensorProtocol:
    """A constant of the same dtype."""
    return ir.tensor(number, dtype=value.dtype)


TABLE = {
    _aten.remainder.Tensor: remainder,
    _aten.remainder.Scalar: remainder_scalar,
    _aten.remainder.Scalar_Tensor: remainder_scalar_tensor,
    _aten.fmod.Scalar: fmod_scalar,
    _aten.floor_divide.default: floor_divide,
    _aten.div.Tensor_mode: divide,
    _aten.div.Scalar_mode: divide_scalar,
    _aten.trunc.default: trunc,
    _aten.frac.default: frac,
    _aten.sign.default: sign,
    _aten.signbit.default: signbit,
    _aten.copysign.Tensor: copysign,
    _aten.pow.Tensor_Scalar: power,
    _aten.clamp.default: clamp,
    _aten.clamp_min.default: clamp_min,
    _aten.clamp_max.default: clamp_max,
    _aten.hypot.default: hypot,
}
