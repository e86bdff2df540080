"""Numbers in the dtype that they have: torchlib writes each as float32 first."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import torch

from roadworthy.targets.onnx.translations.writing import op

_aten = torch.ops.aten


def scalar_tensor(
    s: float,
    dtype: int = ir.DataType.FLOAT,
    layout: str = "",
    device: str = "",
    pin_memory: bool = False,
) -> Any:
    """The number itself: 0.1 of a float64 policy has 53 bits."""
    return op.Constant(value=ir.tensor(s, dtype=ir.DataType(dtype)))


def full_like(
    self: Any,
    fill_value: float,
    dtype: int = -1,
    layout: str = "",
    device: str = "",
    pin_memory: bool = False,
    memory_format: str = "",
) -> Any:
    kind = self.dtype if dtype in (-1, None) else ir.DataType(dtype)
    return op.ConstantOfShape(op.Shape(self), value=ir.tensor([fill_value], dtype=kind))
