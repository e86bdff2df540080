"""What an ONNX file says of itself, read without onnx and without making a session of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Field = int | memoryview

# Field numbers of onnx.proto, by the message that they are in.
_GRAPH, _OPSETS, _METADATA, _TRAINING, _FUNCTIONS, _PRODUCER = 7, 8, 14, 20, 25, 2
_KEY, _VALUE = 1, 2
_TENSOR_NAME, _EXTERNAL_DATA, _DATA_LOCATION = 8, 13, 14
_NODES, _INITIALIZERS, _INPUTS, _OUTPUTS = 1, 5, 11, 12
_OP_TYPE, _OP_DOMAIN = 4, 7
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


class NotAModel(ValueError):
    """The bytes are no ONNX file, or one in a form that no exporter writes."""


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


def fields(message: memoryview) -> Iterator[tuple[int, Field]]:
    """Number and content of each field of a protobuf message; numbers of fixed size as 0."""
    place, size = 0, len(message)
    while place < size:
        tag, place = _varint(message, place)
        kind = tag & 7
        if kind == 0:
            value, place = _varint(message, place)
            yield tag >> 3, value
        elif kind == 2:  # text, or a message
            length, place = _varint(message, place)
            if place + length > size:
                raise NotAModel("it ends in the middle of a field")
            yield tag >> 3, message[place : place + length]
            place += length
        elif kind in (1, 5):  # eight or four bytes
            place += 8 if kind == 1 else 4
            if place > size:
                raise NotAModel("it ends in the middle of a field")
            yield tag >> 3, 0
        else:  # groups, which onnx.proto does not have and other readers would skip
            raise NotAModel("it holds a kind of field that ONNX does not have")


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and the place behind it."""
    value = shift = 0
    while place < len(message) and shift < 70:
        byte = message[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place
    raise NotAModel("it ends in the middle of a number")
