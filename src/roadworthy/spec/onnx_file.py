"""What an ONNX file says of itself, read without onnx and without making a session of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from roadworthy.spec.onnx_wire import Field, NotAModel, fields, varint

# Field numbers of onnx.proto, by the message that they are in.
_GRAPH, _OPSETS, _METADATA, _TRAINING, _FUNCTIONS, _PRODUCER = 7, 8, 14, 20, 25, 2
_KEY, _VALUE = 1, 2
_TENSOR_NAME, _EXTERNAL_DATA, _DATA_LOCATION = 8, 13, 14
_NODES, _INITIALIZERS, _INPUTS, _OUTPUTS = 1, 5, 11, 12
_OP_TYPE, _OP_DOMAIN = 4, 7
_NODE_INPUT, _NODE_OUTPUT, _ATTRIBUTES, _BRANCH = 1, 2, 5, 6
_TENSOR_DIMS, _TENSOR_DTYPE = 1, 2
# Deeper branches than any exporter writes are not followed.
_DEEPEST = 16
_TENSOR_TYPE, _ELEMENT, _SHAPE, _DIM, _DIM_VALUE, _DIM_PARAM = 1, 1, 2, 1, 1, 2
# Message → field → the message in it: every way from a model to a tensor.
_INSIDE = {
    "model": {_GRAPH: "graph", _TRAINING: "training", _FUNCTIONS: "function"},
    "graph": {_NODES: "node", _INITIALIZERS: "tensor", 15: "sparse"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
# onnx.TensorProto.DataType, as NumPy calls them.
_DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
    8: "string", 9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64",
    16: "bfloat16",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPort:
    """An input or an output as an ONNX file declares it; sizes that vary are words.

    `shape` is None where the file does not say it.
    """

    side: Literal["input", "output"]
    name: str
    dtype: str
    shape: tuple[int | str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSummary:
    """What any ONNX file says: ports, operators and how often, opsets, who wrote it."""

    ports: tuple[ModelPort, ...]
    operators: dict[str, int]
    opsets: dict[str, int]
    producer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelNode:
    """One operator of the graph; `inside` are the nodes of its branches, by attribute."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    inside: dict[str, tuple[ModelNode, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelGraph:
    """The nodes in the order in which they run, and name → dtype and shape of each weight."""

    nodes: tuple[ModelNode, ...]
    weights: dict[str, tuple[str, tuple[int, ...]]]


def metadata(model: bytes) -> dict[str, str]:
    """The key-value pairs that the file carries; none where it is no model."""
    found: dict[str, str] = {}
    try:
        for entry in messages(memoryview(model), _METADATA):
            pair = {part: text(value) for part, value in fields(entry)}
            found[pair.get(_KEY, "")] = pair.get(_VALUE, "")
    except (NotAModel, UnicodeDecodeError):  # cut short, or never one
        return {}
    return found


def external_data(model: bytes) -> str | None:
    """The name of the first tensor whose values are in another file; None where there is none.

    Everything is looked at that onnxruntime's own reader would look at, and whatever the two
    could understand differently is no model: a hidden tensor would be a hole.
    """
    for kind, message in _walk(model):
        if kind != "tensor":
            continue
        held = list(fields(message))
        if any(number in (_EXTERNAL_DATA, _DATA_LOCATION) and value for number, value in held):
            named = [value for number, value in held if number == _TENSOR_NAME]
            return text(named[-1]) if named else ""
    return None


def summary(model: bytes) -> ModelSummary:
    """The ports, operators and opsets of any ONNX file."""
    try:
        whole = memoryview(model)
        graphs = list(messages(whole, _GRAPH))
        weights = {
            name_in(each, _TENSOR_NAME) for g in graphs for each in messages(g, _INITIALIZERS)
        }
        sides: tuple[tuple[Literal["input", "output"], int], ...] = (
            ("input", _INPUTS), ("output", _OUTPUTS),
        )  # fmt: skip
        ports = [
            port
            for side, number in sides
            for graph in graphs
            for each in messages(graph, number)
            if (port := _port(side, each)).name not in weights
        ]
        counted = Counter(_operator(each) for kind, each in _walk(model) if kind == "node")
        opsets = {
            name_in(each, _KEY): next(
                (v for n, v in fields(each) if n == 2 and isinstance(v, int)), 0
            )
            for each in messages(whole, _OPSETS)
        }
        producer = name_in(whole, _PRODUCER)
    except UnicodeDecodeError as error:
        raise NotAModel("a name in it is no text") from error
    return ModelSummary(
        ports=tuple(ports), operators=dict(counted.most_common()), opsets=opsets, producer=producer
    )


def graph(model: bytes) -> ModelGraph:
    """The nodes and weights of an ONNX file; branches nest no deeper than _DEEPEST."""
    try:
        found = list(messages(memoryview(model), _GRAPH))
        nodes = tuple(node for each in found for node in _nodes(each, 0))
        tensors = [each for one in found for each in messages(one, _INITIALIZERS)]
        weights = {name_in(each, _TENSOR_NAME): _tensor_type(each) for each in tensors}
    except UnicodeDecodeError as error:
        raise NotAModel("a name in it is no text") from error
    return ModelGraph(nodes=nodes, weights=weights)


def _nodes(graph: memoryview, depth: int) -> Iterator[ModelNode]:
    if depth > _DEEPEST:
        raise NotAModel("its branches nest too deeply to be shown")
    for node in messages(graph, _NODES):
        attributes = list(messages(node, _ATTRIBUTES))
        yield ModelNode(
            operator=_operator(node),
            inputs=tuple(text(each) for each in messages(node, _NODE_INPUT)),
            outputs=tuple(text(each) for each in messages(node, _NODE_OUTPUT)),
            inside={
                name_in(attribute, _KEY): tuple(_nodes(branch, depth + 1))
                for attribute in attributes
                for branch in messages(attribute, _BRANCH)
            },
        )


def _tensor_type(tensor: memoryview) -> tuple[str, tuple[int, ...]]:
    dtype, dims = "?", []
    for number, value in fields(tensor):
        if number == _TENSOR_DIMS and isinstance(value, int):
            dims.append(value)
        elif number == _TENSOR_DIMS and isinstance(value, memoryview):  # many in one field
            place = 0
            while place < len(value):
                size, place = varint(value, place)
                dims.append(size)
        elif number == _TENSOR_DTYPE and isinstance(value, int):
            dtype = _DTYPES.get(value, f"type {value}")
    return dtype, tuple(dims)


def _walk(model: bytes) -> Iterator[tuple[str, memoryview]]:
    """Every message that may hold a tensor, with its kind. No recursion: files may nest deeply."""
    waiting: list[tuple[str, memoryview]] = [("model", memoryview(model))]
    while waiting:
        kind, message = waiting.pop()
        yield kind, message
        inside = _INSIDE[kind]
        if inside:
            waiting += [
                (inside[number], value)
                for number, value in fields(message)
                if number in inside and isinstance(value, memoryview)
            ]


def _port(side: Literal["input", "output"], info: memoryview) -> ModelPort:
    dtype, shape = "?", None
    for kind in messages(info, 2):
        for tensor in messages(kind, _TENSOR_TYPE):
            for number, value in fields(tensor):
                if number == _ELEMENT and isinstance(value, int):
                    dtype = _DTYPES.get(value, f"type {value}")
                if number == _SHAPE and isinstance(value, memoryview):
                    shape = tuple(_dim(each) for each in messages(value, _DIM))
    return ModelPort(side=side, name=name_in(info, _KEY), dtype=dtype, shape=shape)


def _dim(dim: memoryview) -> int | str:
    for number, value in fields(dim):
        if number == _DIM_VALUE and isinstance(value, int):
            return value
        if number == _DIM_PARAM:
            return text(value) or "?"
    return "?"


def _operator(node: memoryview) -> str:
    domain = name_in(node, _OP_DOMAIN)
    return f"{domain}.{name_in(node, _OP_TYPE)}" if domain else name_in(node, _OP_TYPE)


def name_in(message: memoryview, number: int) -> str:
    """The text in a field of a message; empty where it has none."""
    return "".join(text(value) for found, value in fields(message) if found == number)


def text(value: Field) -> str:
    """A field as text; a number is none."""
    return "" if isinstance(value, int) else str(value, "utf-8")


def messages(message: memoryview, wanted: int) -> Iterator[memoryview]:
    """The messages in a field, in their order."""
    for number, value in fields(message):
        if number == wanted and isinstance(value, memoryview):
            yield value
