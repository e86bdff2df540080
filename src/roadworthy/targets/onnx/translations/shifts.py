"""Shifts of bytes: the usual ONNX form makes signed numbers of them."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import torch

from roadworthy.targets.onnx.translations.writing import op

_aten = torch.ops.aten
_UNSIGNED = (ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64)


def lshift_tensor(self: Any, other: Any) -> Any:
    from onnxscript.function_libs.torch_lib.ops import core

    number = _like(other, self)
    if self.dtype in _UNSIGNED:
        return op.BitShift(self, number, direction="LEFT")
    return core.aten_bitwise_left_shift(self, number)


def lshift_scalar(self: Any, other: int) -> Any:
    return lshift_tensor(self, other)


def rshift_tensor(self: Any, other: Any) -> Any:
    from onnxscript.function_libs.torch_lib.ops import core

    number = _like(other, self)
    if self.dtype in _UNSIGNED:
        return op.BitShift(self, number, direction="RIGHT")
    return core.aten_bitwise_right_shift(self, number)


def rshift_scalar(self: Any, other: int) -> Any:
    return rshift_tensor(self, other)


def _like(number: Any, x: Any) -> Any:
    if not isinstance(number, int):
        return number
    return op.Constant(value=ir.tensor(number, dtype=x.dtype))


bitwise_left_shift_tensor = lshift_tensor
bitwise_left_shift_tensor_scalar = lshift_scalar
bitwise_right_shift_tensor = rshift_tensor
bitwise_right_shift_tensor_scalar = rshift_scalar
