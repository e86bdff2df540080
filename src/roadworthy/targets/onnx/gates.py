"""Sigmoids with all of their tail, where a policy needs it.

onnxruntime's own is 0 below −17 and off by up to 6e-8 above, where PyTorch's is right to seven
digits. A gate that is nearly closed multiplies: of a large value the difference is seen. Written as
1 / (1 + e⁻ˣ) it is PyTorch's, for 1.3 µs each; so only a file that was refused gets it.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from roadworthy.targets.onnx.constant_values import constant


def write_whole_sigmoids(graph: ir.Graph) -> None:
    """Changes the graph: each Sigmoid is an exponential, a sum and a reciprocal."""
    for node in list(graph.all_nodes()):
        value = node.inputs[0] if node.inputs else None
        if node.op_type == "Sigmoid" and not node.domain and value is not None:
            _write_whole(node, value)


def _write_whole(node: ir.Node, value: ir.Value) -> None:
    result, owner = node.outputs[0], node.graph
    assert owner is not None
    assert result.dtype is not None
    one = constant(f"{result.name}_one", np.array(1.0, result.dtype.numpy()))
    made: list[ir.Node] = []

    def computed(operator: str, inputs: list[ir.Value], name: str) -> ir.Value:
        out = ir.Value(name=f"{result.name}_{name}", shape=result.shape, type=result.type)
        made.append(ir.node(operator, inputs, outputs=[out]))
        return out

    exponential = computed("Exp", [computed("Neg", [value], "negative")], "exp")
    made += [one.producer()]  # type: ignore[list-item]
    whole = computed("Reciprocal", [computed("Add", [exponential, one], "sum")], "whole")
    for each in made:
        each.metadata_props.update(node.metadata_props)
    ir.convenience.replace_nodes_and_values(owner, node, [node], made, [result], [whole])
