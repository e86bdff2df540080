"""What an ONNX file is made of: operators, the opset each needs, where precision changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roadworthy.errors import need

if TYPE_CHECKING:
    import onnx

_FLOATS = {"FLOAT": "float32", "DOUBLE": "float64", "FLOAT16": "float16", "BFLOAT16": "bfloat16"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCount:
    """An operator of the graph: how often it is used, and since which opset it is what it is."""

    name: str
    count: int
    since: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionChange:
    """A node that takes floats of one precision and gives another."""

    node: str
    operator: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.before} → {self.after} at {self.operator} {self.node!r}"


def operators(model: bytes) -> list[OperatorCount]:
    """The operators of a file, the most frequent first."""
    onnx = need("onnx", extra="export")
    loaded = onnx.load_from_string(model)
    opsets = {entry.domain: entry.version for entry in loaded.opset_import}
    counted = Counter((node.domain, node.op_type) for node in _nodes(loaded.graph))
    return [
        OperatorCount(
            name=f"{domain}.{name}" if domain else name,
            count=count,
            since=onnx.defs.get_schema(name, opsets[domain], domain).since_version,
        )
        for (domain, name), count in counted.most_common()
    ]


def port_dtypes(model: bytes) -> dict[str, str]:
    """Input and output names of the graph → dtype, as the file itself says."""
    onnx = need("onnx", extra="export")
    graph = onnx.load_from_string(model).graph
    return {
        port.name: str(onnx.helper.tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type))
        for port in (*graph.input, *graph.output)
    }


def first_precision_change(model: bytes) -> PrecisionChange | None:
    """The first node, in the order of execution, whose floats come out in another precision."""
    onnx = need("onnx", extra="export")
    loaded = onnx.shape_inference.infer_shapes(onnx.load_from_string(model))
    names = onnx.TensorProto.DataType
    for graph in _graphs(loaded.graph):
        dtypes = {tensor.name: names.Name(tensor.data_type) for tensor in graph.initializer}
        for value in (*graph.input, *graph.output, *graph.value_info):
            dtypes[value.name] = names.Name(value.type.tensor_type.elem_type)
        for node in graph.node:
            before = _floats(dtypes, node.input)
            after = _floats(dtypes, node.output)
            if before and after and after[0] not in before:
                return PrecisionChange(
                    node=node.name, operator=node.op_type, before=before[0], after=after[0]
                )
    return None


def _floats(dtypes: dict[str, str], names: Any) -> list[str]:
    return [_FLOATS[dtypes[name]] for name in names if dtypes.get(name) in _FLOATS]


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for each in _graphs(graph):
        yield from each.node


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph, and those inside its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)
