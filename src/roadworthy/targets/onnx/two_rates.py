"""Two graphs in one file: an `If` on the clock chooses between deciding and applying."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from roadworthy.spec.signature import Signature
from roadworthy.targets.onnx.constant_values import stored


def two_rates(step: ir.Model, substep: ir.Model, signature: Signature) -> ir.Model:
    """The model that runs `step` when the clock is a multiple of the decimation, else `substep`.

    Both have the ports of the signature. Their constants move to the outer graph.
    """
    assert signature.clock is not None
    clock = ir.Value(
        name=signature.clock, shape=ir.Shape([]), type=ir.TensorType(ir.DataType.INT32)
    )
    inputs = [
        ir.Value(name=value.name, shape=value.shape, type=value.type) for value in step.graph.inputs
    ]
    outputs = [(str(value.name), value.shape, value.type) for value in step.graph.outputs]
    constants: list[ir.Value] = []
    branches = []
    for prefix, model in (("step", step), ("substep", substep)):
        branch, own = _branch(prefix, model.graph, inputs)
        branches.append(branch)
        constants += own
    decimation = stored("decimation", np.asarray(signature.decimation, np.int32))
    zero = stored("zero", np.asarray(0, np.int32))
    rest = ir.node("Mod", [clock, decimation])
    decides = ir.node("Equal", [rest.outputs[0], zero])
    rest.outputs[0].name, decides.outputs[0].name = "ticks_since_decision", "decides"
    choice = ir.node(
        "If",
        [decides.outputs[0]],
        attributes={"then_branch": branches[0], "else_branch": branches[1]},
        num_outputs=len(outputs),
    )
    for value, (name, shape, kind) in zip(choice.outputs, outputs, strict=True):
        value.name, value.shape, value.type = name, shape, kind
    graph = ir.Graph(
        [clock, *inputs],
        choice.outputs,
        nodes=[rest, decides, choice],
        initializers=[decimation, zero, *constants],
        opset_imports=step.graph.opset_imports,
        name="policy",
    )
    return ir.Model(graph, ir_version=step.ir_version)


def _branch(
    prefix: str, graph: ir.Graph, inputs: Sequence[ir.Value]
) -> tuple[ir.Graph, list[ir.Value]]:
    """The graph as a branch: inputs from outside, names of its own, constants apart.

    Each of its outputs is some node's, which a branch returns.
    """
    for inside, outside in zip(list(graph.inputs), inputs, strict=True):
        inside.replace_all_uses_with(outside)
    constants = list(graph.initializers.values())
    graph.initializers.clear()
    for node in graph.all_nodes():
        node.name = f"{prefix}/{node.name}"
        for value in node.outputs:
            value.name = f"{prefix}/{value.name}"
    for value in constants:
        value.name = f"{prefix}/{value.name}"
    nodes, outputs = list(graph), list(graph.outputs)
    graph.outputs.clear()
    graph.inputs.clear()
    graph.remove(nodes)
    return ir.Graph([], outputs, nodes=nodes, name=prefix), constants
