"""An ONNX file as plain data: nodes, constants, ports. Read without onnx."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from roadworthy.errors import BundleError
from roadworthy.spec.onnx_wire import (
    Field,
    content,
    grouped,
    integers,
    last_text,
    number,
    real,
    signed,
    text,
)
from roadworthy.spec.port import Array

DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
    9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64",
}  # fmt: skip
_ONNX = ("", "ai.onnx")
# Operators whose rules changed, and since when they are today's. Others were given more forms: an
# older one has attributes that its reader knows, or refuses.
_RULES = {"Softmax": 13, "LogSoftmax": 13}
# Which field of a TensorProto holds the numbers where they are not raw bytes.
_NUMBERS = {4: "<f4", 10: "<f8"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """One operator: names of values in (empty where left out), names of values out."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Declared:
    """A graph input or output: dtype, and a shape whose symbolic sizes are names."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Graph:
    """A graph, or a branch of one."""

    nodes: tuple[Node, ...]
    constants: Mapping[str, Array] = field(repr=False)
    inputs: tuple[Declared, ...]
    outputs: tuple[Declared, ...]


def read(model: bytes) -> Graph:
    """The graph of an ONNX file, or an error that says why it is none."""
    try:
        return _model(memoryview(model))
    except (IndexError, ValueError, KeyError, UnicodeDecodeError, RecursionError) as error:
        raise BundleError(
            f"policy.onnx cannot be read: {error}",
            hint="copy the bundle again from its source, or export it again",
        ) from error


def _model(message: memoryview) -> Graph:
    parts = grouped(message)
    if parts[25]:
        raise ValueError("it has functions of its own, which Roadworthy never writes")
    if len(parts[7]) != 1:
        raise ValueError("it holds no graph")
    graph = _graph(content(parts[7][0]))
    for each in parts[8]:
        domain, version = (grouped(content(each))[place] for place in (1, 2))
        if last_text(domain) in _ONNX and version:
            return _dated(graph, number(version[-1]))
    return graph


def _dated(graph: Graph, opset: int) -> Graph:
    """The graph where operators that had other rules in its opset are called by another name."""
    nodes = []
    for node in graph.nodes:
        op = f"{node.op} of opset {opset}" if opset < _RULES.get(node.op, 0) else node.op
        attributes = {
            name: _dated(value, opset) if isinstance(value, Graph) else value
            for name, value in node.attributes.items()
        }
        nodes.append(replace(node, op=op, attributes=attributes))
    return replace(graph, nodes=tuple(nodes))


def _graph(message: memoryview) -> Graph:
    parts = grouped(message)
    return Graph(
        nodes=tuple(_node(content(each)) for each in parts[1]),
        constants=dict(_tensor(content(each)) for each in parts[5]),
        inputs=tuple(_declared(content(each)) for each in parts[11]),
        outputs=tuple(_declared(content(each)) for each in parts[12]),
    )


def _node(message: memoryview) -> Node:
    parts = grouped(message)
    op, domain = last_text(parts[4]), last_text(parts[7])
    return Node(
        op=op if domain in _ONNX else f"{domain}.{op}",
        name=last_text(parts[3]),
        inputs=tuple(map(text, parts[1])),
        outputs=tuple(map(text, parts[2])),
        attributes=dict(_attribute(content(each)) for each in parts[5]),
    )


def _attribute(message: memoryview) -> tuple[str, object]:
    parts = grouped(message)
    readers: dict[int, Callable[[Field], object]] = {
        2: lambda each: real(number(each)),
        3: lambda each: signed(number(each)),
        4: text,
        5: lambda each: _tensor(content(each))[1],
        6: lambda each: _graph(content(each)),
    }
    for place, reader in readers.items():
        if parts[place]:
            return last_text(parts[1]), reader(parts[place][-1])
    lists: tuple[list[object], ...] = (
        [text(each) for each in parts[9]],
        [value for each in parts[7] for value in _floats(each)],
        [value for each in parts[8] for value in integers(each)],
    )
    return last_text(parts[1]), next((tuple(each) for each in lists if each), ())


def _floats(each: Field) -> list[float]:
    """A repeated float, packed or not."""
    return [real(each)] if isinstance(each, int) else np.frombuffer(each, "<f4").tolist()


def _tensor(message: memoryview) -> tuple[str, Array]:
    parts = grouped(message)
    name = last_text(parts[8])
    if any(parts[13]) or any(parts[14]):
        raise ValueError(f"{name or 'a constant'} lies in another file")
    kind = number(parts[2][-1]) if parts[2] else 1
    if kind not in DTYPES:
        raise ValueError(f"{name or 'a constant'} has numbers of type {kind}")
    dtype = np.dtype(DTYPES[kind])
    if parts[9]:
        array = np.frombuffer(content(parts[9][-1]), dtype.newbyteorder("<")).astype(dtype)
    else:
        listed = [np.asarray(integers(each)) for place in (5, 7, 11) for each in parts[place]]
        listed += [
            np.frombuffer(content(each), kind)
            for place, kind in _NUMBERS.items()
            for each in parts[place]
        ]
        flat = np.concatenate(listed) if listed else np.zeros(0, dtype)
        as_bits = dtype == np.float16 and flat.dtype.kind == "i"
        array = flat.astype(np.uint16).view(np.float16) if as_bits else flat.astype(dtype)
    return name, array.reshape([size for each in parts[1] for size in integers(each)])


def _declared(message: memoryview) -> Declared:
    parts = grouped(message)
    dtype, shape = "", list[int | str]()
    for kind in parts[2]:
        for tensor in grouped(content(kind))[1]:
            inner = grouped(content(tensor))
            dtype = DTYPES.get(number(inner[1][-1]), "") if inner[1] else ""
            dims = [dim for each in inner[2] for dim in grouped(content(each))[1]]
            shape = [_size(content(dim)) for dim in dims]
    return Declared(name=last_text(parts[1]), dtype=dtype, shape=tuple(shape))


def _size(dim: memoryview) -> int | str:
    """A number, the name of a size that varies, or a question mark."""
    parts = grouped(dim)
    if parts[2]:
        return last_text(parts[2])
    return signed(number(parts[1][-1])) if parts[1] else "?"
