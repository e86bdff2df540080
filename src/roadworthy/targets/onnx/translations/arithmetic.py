"""Remainders, quotients, rounding, signs, powers and clamps, as PyTorch computes them."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir
import torch

from roadworthy.targets.onnx.translations.writing import like, op

_aten = torch.ops.aten


def negative(x: Any) -> Any:
    """Whether a float is below zero or is −0.0: 1 / −0.0 is −∞, and −∞ + 1 / −∞ is below zero."""
    return op.Less(op.Add(x, op.Reciprocal(x)), like(0.0, x))


def remainder_tensor(self: Any, other: Any) -> Any:
    """`a % b`: exact where a − ⌊a / b⌋·b is off by the rounding of a / b, times b."""
    self, other, dtype = _both(self, other)
    if not dtype.is_floating_point():
        return op.Mod(self, other)
    rest = op.Mod(self, other, fmod=1)
    return op.Where(_turned(rest, other, dtype), op.Add(rest, other), rest)


def remainder_scalar(self: Any, other: float) -> Any:
    return remainder_tensor(self, other)


def remainder_scalar_tensor(self: float, other: Any) -> Any:
    return remainder_tensor(self, other)


def fmod_tensor(self: Any, other: Any) -> Any:
    """The remainder towards zero: of integers without a detour over floats."""
    self, other, dtype = _both(self, other)
    if dtype.is_floating_point():
        return op.Mod(self, other, fmod=1)
    return op.Sub(self, op.Mul(op.Div(self, other), other))


def fmod_scalar(self: Any, other: float) -> Any:
    return fmod_tensor(self, other)


def floor_divide(self: Any, other: Any) -> Any:
    """`a // b`: of floats from the exact remainder, of integers without a detour over floats."""
    self, other, dtype = _both(self, other)
    zero, one = (ir.tensor(each, dtype=dtype) for each in (0, 1))
    if not dtype.is_floating_point():
        apart = op.Xor(op.Less(self, zero), op.Less(other, zero))
        down = op.And(apart, op.Not(op.Equal(op.Mod(self, other), zero)))
        return op.Sub(op.Div(self, other), op.Cast(down, to=dtype))
    rest = op.Mod(self, other, fmod=1)
    whole = op.Div(op.Sub(self, rest), other)
    whole = op.Where(_turned(rest, other, dtype), op.Sub(whole, one), whole)
    floor = op.Floor(whole)
    half = ir.tensor(0.5, dtype=dtype)
    floor = op.Where(op.Greater(op.Sub(whole, floor), half), op.Add(floor, one), floor)
    return op.Where(op.Equal(other, zero), op.Div(self, other), floor)


def div_tensor_mode(self: Any, other: Any, rounding_mode: str | None = None) -> Any:
    """`torch.div` with a rounding mode."""
    if rounding_mode == "floor":
        return floor_divide(self, other)
    self, other, dtype = _both(self, other)
    if dtype.is_floating_point():
        quotient = op.Div(self, other)
        towards_zero = op.Mul(op.Floor(op.Abs(quotient)), op.Sign(quotient))
        return towards_zero if rounding_mode == "trunc" else quotient
    if rounding_mode == "trunc":
        return op.Div(self, other)
    single = ir.DataType.FLOAT
    return op.Div(op.Cast(self, to=single), op.Cast(other, to=single))


def div_scalar_mode(self: Any, other: float, rounding_mode: str | None = None) -> Any:
    return div_tensor_mode(self, other, rounding_mode)


def sign(self: Any) -> Any:
    """0 for NaN, as in PyTorch."""
    if self.dtype == ir.DataType.BOOL:
        return op.Identity(self)
    if not self.dtype.is_floating_point():
        return op.Sign(self)
    return op.Where(op.IsNaN(self), like(0.0, self), op.Sign(self))


def signbit(self: Any) -> Any:
    if self.dtype.is_floating_point():
        return negative(self)
    return op.Less(self, like(0, self))


def copysign_tensor(self: Any, other: Any) -> Any:
    size = op.Abs(self)
    minus, plus = like(-1.0, self), like(1.0, self)
    return op.Mul(size, op.Where(negative(other), minus, plus))


def copysign_scalar(self: Any, other: float) -> Any:
    size = op.Abs(self)
    return op.Neg(size) if math.copysign(1.0, other) < 0 else size


def pow_tensor_scalar(self: Any, exponent: float) -> Any:
    """Roots as roots: C's pow gives ∞ for the root of −∞, and PyTorch NaN."""
    if self.dtype.is_floating_point():
        if exponent == 0.5:
            return op.Sqrt(self)
        if exponent == -0.5:
            return op.Reciprocal(op.Sqrt(self))
        return op.Pow(self, like(exponent, self))
    if isinstance(exponent, int):
        return op.Pow(self, like(exponent, self))
    return op.Pow(op.Cast(self, to=ir.DataType.FLOAT), ir.tensor(exponent, ir.DataType.FLOAT))


def clamp(self: Any, min: float | None = None, max: float | None = None) -> Any:  # noqa: A002
    """Clip with one end takes the largest number for the other, and makes ∞ finite."""
    if min is not None and max is not None:
        return op.Clip(self, like(min, self), like(max, self))
    if min is not None:
        return op.Max(self, like(min, self))
    if max is not None:
        return op.Min(self, like(max, self))
    return op.Identity(self)


def clamp_min(self: Any, low: float) -> Any:
    return op.Max(self, like(low, self))


def clamp_max(self: Any, high: float) -> Any:
    return op.Min(self, like(high, self))


def hypot(self: Any, other: Any) -> Any:
    """√(a² + b²) without squares that overflow or vanish; infinite beside NaN too, as in C."""
    a, b = op.Abs(self), op.Abs(other)
    large, small = op.Max(a, b), op.Min(a, b)
    zero, one, inf = (like(each, self) for each in (0.0, 1.0, math.inf))
    ratio = op.Where(op.Equal(large, zero), zero, op.Div(small, large))
    length = op.Mul(large, op.Sqrt(op.Add(one, op.Mul(ratio, ratio))))
    return op.Where(op.Or(op.Equal(a, inf), op.Equal(b, inf)), inf, length)


def _turned(rest: Any, other: Any, dtype: ir.DataType) -> Any:
    """Whether a remainder towards zero has the other sign than what was divided by."""
    zero = ir.tensor(0, dtype=dtype)
    apart = op.Xor(op.Less(rest, zero), op.Less(other, zero))
    return op.And(apart, op.Not(op.Equal(rest, zero)))


def _both(self: Any, other: Any) -> tuple[Any, Any, ir.DataType]:
    """Two operands, of which one may be a Python number, and their dtype."""
    dtype = other.dtype if isinstance(self, (int, float)) else self.dtype
    first, second = (
        op.Constant(value=ir.tensor(each, dtype=dtype)) if isinstance(each, (int, float)) else each
        for each in (self, other)
    )
    return first, second, dtype
