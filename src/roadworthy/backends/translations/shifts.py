"""Shifts of bytes: the usual ONNX form makes signed numbers of them."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import torch

from roadworthy.backends.translations.writing import op

_aten = torch.ops.aten
_UNSIGNED = (ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64)


def left_shift(self: Any, other: Any) -> Any:
    from onnxscript.function_libs.torch_lib.ops import core

    number = _like(other, self)
    if self.dtype in _UNSIGNED:
        return op.BitShift(self, number, direction="LEFT")
    return core.aten_bitwise_left_shift(self, number)


def left_shift_by(self: Any, other: int) -> Any:
    return left_shift(self, other)


def right_shift(self: Any, other: Any) -> Any:
    from onnxscript.function_libs.torch_lib.ops import core

    number = _like(other, self)
    if self.dtype in _UNSIGNED:
        return op.BitShift(self, number, direction="RIGHT")
    return core.aten_bitwise_right_shift(self, number)


def right_shift_by(self: Any, other: int) -> Any:
    return right_shift(self, other)


def _like(number: Any, x: Any) -> Any:
    if not isinstance(number, int):
        return number
    return op.Constant(value=ir.tensor(number, dtype=x.dtype))


TABLE = {
    _aten.bitwise_left_shift.Tensor: left_shift,
    _aten.bitwise_left_shift.Tensor_Scalar: left_shift_by,
    _aten.__lshift__.Tensor: left_shift,
    _aten.__lshift__.Scalar: left_shift_by,
    _aten.bitwise_right_shift.Tensor: right_shift,
    _aten.bitwise_right_shift.Tensor_Scalar: right_shift_by,
    _aten.__rshift__.Tensor: right_shift,
    _aten.__rshift__.Scalar: right_shift_by,
}
