"""Tanh kept within ±1 where that matters: onnxruntime's gives up to 1.0000002 between 8.1 and 9.

Two units too much are nothing, unless an operator behind it ends at 1: acos(tanh(x)) is NaN then.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from roadworthy.targets.onnx.constant_values import constant

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
        low, high = (
            constant(f"{value.name}_{end}", np.array(limit, value.dtype.numpy()))
            for end, limit in (("low", -1.0), ("high", 1.0))
        )
        bounded = ir.Value(name=f"{value.name}_bounded", shape=value.shape, type=value.type)
        value.replace_all_uses_with(bounded, replace_graph_outputs=True)
        clip = ir.node("Clip", [value, low, high], name=f"{node.name}_bounded", outputs=[bounded])
        clip.metadata_props.update(node.metadata_props)
        node.graph.insert_after(node, [low.producer(), high.producer(), clip])  # type: ignore[list-item]
