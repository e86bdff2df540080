"""Every value inside an ONNX file, under the names of the nodes that torch.export wrote down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from roadworthy.runtime.telemetry import silent_onnxruntime
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
    onnxruntime = silent_onnxruntime()
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
