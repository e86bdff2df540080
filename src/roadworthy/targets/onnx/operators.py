"""What an ONNX file is made of: operators, the opset each needs, where precision changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from roadworthy.errors import need
from roadworthy.spec.onnx_wire import NotAModel

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

_FLOATS = {"FLOAT": "float32", "DOUBLE": "float64", "FLOAT16": "float16", "BFLOAT16": "bfloat16"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCount:
    """An operator of the graph: how often it is used, and since which opset it is what it is.

    `since` is None for an operator that onnx does not know: one of another domain.
    """

    name: str
    count: int
    since: int | None


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
    whole = loaded(model)
    opsets = {entry.domain: entry.version for entry in whole.opset_import}
    counted = Counter((node.domain, node.op_type) for node in _nodes(whole.graph))
    return [
        OperatorCount(
            name=f"{domain}.{name}" if domain else name,
            count=count,
            since=_since(name, opsets.get(domain, 1), domain),
        )
        for (domain, name), count in counted.most_common()
    ]


def port_dtypes(model: bytes) -> dict[str, str]:
    """Input and output names of the graph → dtype, as the file itself says."""
    graph = loaded(model).graph
    return {
        port.name: dtype_name(port.type.tensor_type.elem_type)
        for port in (*graph.input, *graph.output)
    }


def loaded(model: bytes) -> ModelProto:
    """The file as onnx reads it, or an error if it is damaged or never was one."""
    onnx = need("onnx", extra="export")
    try:
        return cast("ModelProto", onnx.load_from_string(model))
    except Exception as error:  # protobuf's own
        raise NotAModel(f"onnx cannot read it ({type(error).__name__})") from error


def inferred(model: bytes) -> ModelProto:
    """As `loaded`, with the types and shapes inside of the graph, as far as onnx can tell them."""
    onnx, whole = need("onnx", extra="export"), loaded(model)
    with suppress(Exception):  # it raises what it likes where operators are not its own
        whole = onnx.shape_inference.infer_shapes(whole)
    return whole


def dtype_name(kind: int) -> str:
    """The name of a dtype of ONNX, as NumPy has it where it does."""
    onnx = need("onnx", extra="export")
    try:
        return str(onnx.helper.tensor_dtype_to_np_dtype(kind))
    except KeyError:  # a sequence, or a number that means nothing
        return "of unknown type"


def _since(name: str, opset: int, domain: str) -> int | None:
    onnx = need("onnx", extra="export")
    if not onnx.defs.has(name, domain):
        return None
    version: int = onnx.defs.get_schema(name, opset, domain).since_version
    return version


def first_precision_change(model: bytes) -> PrecisionChange | None:
    """The first node, in the order of execution, whose floats come out in another precision."""
    onnx = need("onnx", extra="export")
    names = onnx.TensorProto.DataType
    for graph in _graphs(inferred(model).graph):
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


def _nodes(graph: GraphProto) -> Iterator[NodeProto]:
    for each in _graphs(graph):
        yield from each.node


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """The graph, and those inside its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)
