"""What translations are written with: ONNX's operators, and constants for them."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import onnxscript

# Their annotations are of arrays and know no constants; torch.onnx traces them.
op: Any = onnxscript.opset18


def like(number: float, value: Any) -> ir.TensorProtocol:
    """A constant of the value's dtype."""
    return ir.tensor(number, dtype=value.dtype)


def integer(number: int | list[int]) -> ir.TensorProtocol:
    """A whole number, or a row of some."""
    return ir.tensor(number, dtype=ir.DataType.INT64)
