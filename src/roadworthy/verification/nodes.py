"""Every value inside a graph: what the artifact computes, and what PyTorch computes for it.

The values of an ONNX file keep the names of the nodes that torch.export wrote down, so the two
sides can be laid beside each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch

from roadworthy.capture.borrowed import borrowed
from roadworthy.capture.capture import capture
from roadworthy.capture.source import Source
from roadworthy.errors import ExportError
from roadworthy.lines import quoted_line
from roadworthy.quiet import quiet
from roadworthy.spec.port import Array
from roadworthy.spec.signature import Signature

# Values that are fetched at once: a large graph is looked at piece by piece.
PIECE = 256


@dataclass(frozen=True, slots=True, eq=False)
class NodeValue:
    """One value inside the artifact: its name, the operator that made it, and what it is."""

    name: str
    operator: str
    value: Array
    weights: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class TorchValue:
    """The counterpart in PyTorch, and the line of the user's code that it comes from."""

    value: Array
    where: str


def artifact_values(
    model: bytes, signature: Signature, inputs: Mapping[str, Array], memory: Mapping[str, Array]
) -> Iterator[NodeValue]:
    """Every value of one step, in the order in which the graph computes them."""
    proto = onnx.load_from_string(model)
    constants = {each.name for each in proto.graph.initializer}
    nodes = [(node, name) for node in proto.graph.node for name in node.output if name]
    shown = {value.name for value in proto.graph.output}
    proto.graph.output.extend(
        onnx.ValueInfoProto(name=name) for _, name in nodes if name not in shown
    )
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feeds = dict(inputs) | {each.input: memory[each.name] for each in signature.memory}
    if signature.clock:
        feeds[signature.clock] = np.zeros((), np.int32)
    for first in range(0, len(nodes), PIECE):
        piece = nodes[first : first + PIECE]
        values = session.run([name for _, name in piece], feeds)
        for (node, name), value in zip(piece, values, strict=True):
            weights = tuple(each for each in node.input if each in constants)
            yield NodeValue(name, node.op_type, np.asarray(value), weights)


def torch_values(
    source: Source, signature: Signature, inputs: Mapping[str, Array], memory: Mapping[str, Array]
) -> dict[str, TorchValue]:
    """The same step in PyTorch, node by node, under the names that the artifact uses."""
    graph = capture(source).graph
    try:
        with quiet():
            exported = torch.onnx.export(graph, dynamo=True, verbose=False)
    except Exception as error:  # an operator that only the export's own translations knew
        raise ExportError("the original cannot be laid beside the artifact") from error
    assert exported is not None
    program = exported.exported_program
    assert program is not None
    arguments = [torch.from_numpy(np.array(inputs[port.name])) for port in signature.inputs]
    arguments += [torch.from_numpy(np.array(memory[each.name])) for each in signature.memory]
    with borrowed(source), torch.no_grad():
        recorder = _Recorder(program.graph_module)
        recorder.run(*_lifted(program), *arguments)
    outputs = program.graph.find_nodes(op="output")[0].args[0]
    ports = [port.name for port in signature.outputs]
    ports += [each.output for each in signature.memory]
    renamed = {node.name: port for node, port in zip(outputs, ports, strict=True)}
    return {renamed.get(name, name): value for name, value in recorder.found.items()}


class _Recorder(torch.fx.Interpreter):
    """Runs a graph and keeps every tensor by the name of its node."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.found: dict[str, TorchValue] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, torch.Tensor) and n.op == "call_function":
            where = quoted_line(n.meta.get("stack_trace") or "")
            self.found[n.name] = TorchValue(result.detach().numpy().copy(), where)
        return result


def _lifted(program: torch.export.ExportedProgram) -> list[Any]:
    """Parameters, buffers and constants, in the order in which the graph takes them."""
    kinds = torch.export.graph_signature.InputKind
    found: list[Any] = []
    for spec in program.graph_signature.input_specs:
        if spec.kind is kinds.USER_INPUT:
            continue
        assert spec.target is not None
        held = program.state_dict.get(spec.target)
        found.append(program.constants[spec.target] if held is None else held)
    return found
