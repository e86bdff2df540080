"""Convolutions along one axis, written as over a plane of height 1.

onnxruntime computes those over planes in blocks of channels, and those along a line one by one: for
the convolutions of a diffusion policy that is two to three times slower. A row and a column of one
element changes no result; small ones stay as they are, for they gain nothing.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from roadworthy.targets.onnx.constant_values import stored

# Weights from which a plane is quicker: 64 channels to 64, five wide, is where it begins.
LEAST_WEIGHTS = 16_384
_HEIGHT = 2
_AXIS = "height_axis"


def convolve_planes(graph: ir.Graph) -> None:
    """Changes the graph: its large convolutions along one axis are over planes."""
    for node in list(graph.all_nodes()):
        if node.op_type == "Conv" and not node.domain and node.graph is graph:
            weight = node.inputs[1]
            if weight is not None and _is_large_line(weight, graph):
                _flatten(node, weight, graph)


def _is_large_line(weight: ir.Value, graph: ir.Graph) -> bool:
    known = weight.const_value
    if known is None or graph.initializers.get(weight.name or "") is not weight:
        return False
    return len(known.shape) == 3 and math.prod(known.shape.numpy()) >= LEAST_WEIGHTS


def _flatten(node: ir.Node, weight: ir.Value, graph: ir.Graph) -> None:
    """Changes the graph: this convolution has a plane before it, and a line behind it."""
    line, result = node.inputs[0], node.outputs[0]
    assert line is not None
    before = ir.node("Unsqueeze", [line, _axis(graph)])
    plane = before.outputs[0]
    plane.name, plane.type, plane.shape = f"{result.name}_in_plane", line.type, _high(line.shape)
    node.replace_input_with(0, plane)
    node.replace_input_with(1, _high_weight(weight, graph))
    if not weight.uses():
        del graph.initializers[weight.name or ""]
    for name in ("kernel_shape", "strides", "dilations"):
        if name in node.attributes:
            node.attributes[name] = ir.AttrInt64s(name, [1, *node.attributes[name].as_ints()])
    if "pads" in node.attributes:
        first, last = node.attributes["pads"].as_ints()
        node.attributes["pads"] = ir.AttrInt64s("pads", [0, first, 0, last])
    # The result keeps its name, by which others know it: it is what comes out of the plane.
    after = ir.node("Squeeze", [result, _axis(graph)])
    out = after.outputs[0]
    ir.convenience.replace_all_uses_with(result, out, replace_graph_outputs=True)
    out.type, out.shape, out.name = result.type, result.shape, result.name
    result.name, result.shape = f"{out.name}_plane", _high(out.shape)
    after.replace_input_with(0, result)
    for each in (before, after):
        each.metadata_props.update(node.metadata_props)
    graph.insert_before(node, before)
    graph.insert_after(node, after)


def _high(shape: ir.Shape | None) -> ir.Shape | None:
    if shape is None:
        return None
    dims = list(shape)
    return ir.Shape([*dims[:_HEIGHT], 1, *dims[_HEIGHT:]])


def _axis(graph: ir.Graph) -> ir.Value:
    if _AXIS not in graph.initializers:
        graph.register_initializer(stored(_AXIS, np.array([_HEIGHT])))
    return graph.initializers[_AXIS]


def _high_weight(weight: ir.Value, graph: ir.Graph) -> ir.Value:
    """The same numbers with a height; those that several share once."""
    name = f"{weight.name}_plane"
    if name not in graph.initializers:
        assert weight.const_value is not None
        numbers = weight.const_value.numpy()
        graph.register_initializer(stored(name, numbers[:, :, None, :]))
    return graph.initializers[name]
