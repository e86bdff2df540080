"""Tanh kept within ±1 where that matters: onnxruntime's gives up to 1.0000002 between 8.1 and 9.

Two units too much are nothing, unless an operator behind it ends at 1: acos(tanh(x)) is NaN then.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

# Operators whose numbers end somewhere, and powers, which may be roots.
_ENDING = {"Acos", "Asin", "Atanh", "Acosh", "Sqrt", "Log", "Pow"}


def keep_tanh_bounded(model: ir.Model) -> None:
    """Changes the model: every Tanh is clipped if something in it has an end."""
    nodes = list(model.graph.all_nodes())
    if not any(node.op_type in _ENDING for node in nodes):
        return
    for node in nodes:
        if node.op_type != "Tanh" or node.domain:
            continue
        (value,) = node.outputs
        if value.dtype is None or node.graph is None:
            continue
        low, high = (_number(node, value, limit) for limit in (-1.0, 1.0))
        clip = ir.node("Clip", [value, low, high], name=f"{node.name}_bounded")
        bounded = clip.outputs[0]
        bounded.name, bounded.shape = f"{value.name}_bounded", value.shape
        bounded.dtype, bounded.type = value.dtype, value.type
        clip.metadata_props.update(node.metadata_props)
        outer = node.graph
        uses = [each for each in value.uses() if each.node is not clip]
        for use in uses:
            use.node.replace_input_with(use.idx, bounded)
        for index, output in enumerate(outer.outputs):
            if output is value:
                outer.outputs[index] = bounded
        outer.insert_after(node, [low.producer(), high.producer(), clip])  # type: ignore[list-item]


def _number(node: ir.Node, value: ir.Value, number: float) -> ir.Value:
    assert value.dtype is not None
    tensor = ir.Tensor(
        np.array(number, value.dtype.numpy()),
        name=f"{value.name}_{'low' if number < 0 else 'high'}",
    )
    constant = ir.node("Constant", [], attributes={"value": tensor})
    found = constant.outputs[0]
    found.name, found.shape, found.dtype = tensor.name, ir.Shape([]), value.dtype
    found.const_value = tensor
    return found
