"""Sigmoids with all of their tail, where a policy needs it.

onnxruntime's own is 0 below −17 and off by up to 6e-8 above, where PyTorch's is right to seven
digits. A gate that is nearly closed multiplies: of a large value the difference is seen. Written as
1 / (1 + e⁻ˣ) it is PyTorch's, for 1.3 µs each; so only a file that was refused gets it.
"""

from __future__ import annotations

import onnx_ir as ir


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
    negative = ir.node("Neg", [value])
    exponential = ir.node("Exp", [negative.outputs[0]])
    number = ir.tensor(1.0, dtype=result.dtype, name=f"{result.name}_one")
    one = ir.node("Constant", [], attributes={"value": number})
    total = ir.node("Add", [exponential.outputs[0], one.outputs[0]])
    whole = ir.node("Reciprocal", [total.outputs[0]])
    made = (negative, exponential, one, total, whole)
    for each, name in zip(made[:-1], ("negative", "exp", "one", "sum"), strict=True):
        out = each.outputs[0]
        out.name, out.dtype = f"{result.name}_{name}", result.dtype
        out.shape = ir.Shape([]) if each is one else result.shape
    for each in made:
        each.metadata_props.update(node.metadata_props)
    ir.convenience.replace_nodes_and_values(
        owner, node, [node], list(made), [result], [whole.outputs[0]]
    )
