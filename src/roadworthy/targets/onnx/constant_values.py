"""Numbers in an ONNX graph: a node that gives one, and a value that the graph holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir


def constant(name: str, numbers: np.ndarray[Any, Any]) -> ir.Value:
    """What a node gives that is nothing but these numbers; it is in no graph yet."""
    held = stored(name, numbers)
    ir.node("Constant", [], attributes={"value": held.const_value}, outputs=[held])
    return held


def stored(name: str, numbers: np.ndarray[Any, Any]) -> ir.Value:
    """A value that holds these numbers, for the initializers of a graph."""
    tensor = ir.Tensor(numbers, name=name)
    return ir.Value(
        name=name,
        shape=ir.Shape(numbers.shape),
        type=ir.TensorType(tensor.dtype),
        const_value=tensor,
    )
