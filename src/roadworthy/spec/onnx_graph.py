"""What an ONNX file computes, as plain data: nodes, constants, ports. Read without onnx."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from roadworthy.errors import BundleError
from roadworthy.spec.onnx_wire import Message, real
from roadworthy.spec.port import Array

DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
    9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64",
}  # fmt: skip
_ONNX = ("", "ai.onnx")
# Operators whose rules changed, and since when they are today's. Others were given more forms: an
# older one has attributes that its reader knows, or refuses.
_RULES = {"Softmax": 13, "LogSoftmax": 13}
# Which field of a tensor holds floats where they are not raw bytes.
_FLOATS = {"float_data": "<f4", "double_data": "<f8"}


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
        return _model(Message(model))
    except (IndexError, ValueError, KeyError, RecursionError) as error:
        raise BundleError(
            f"policy.onnx cannot be read: {error}",
            hint="copy the bundle again from its source, or export it again",
        ) from error


def _model(model: Message) -> Graph:
    if model.all("functions"):
        raise ValueError("it has functions of its own, which Roadworthy never writes")
    if len(model.all("graph")) != 1:
        raise ValueError("it holds no graph")
    graph = _graph(model.inside("graph")[0])
    for opset in model.inside("opset_import"):
        version = opset.number("version")
        if opset.text("domain") in _ONNX and version is not None:
            return _dated(graph, version)
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


def _graph(graph: Message) -> Graph:
    return Graph(
        nodes=tuple(map(_node, graph.inside("node"))),
        constants=dict(map(_tensor, graph.inside("initializer"))),
        inputs=tuple(map(_declared, graph.inside("input"))),
        outputs=tuple(map(_declared, graph.inside("output"))),
    )


def _node(node: Message) -> Node:
    op, domain = node.text("op_type"), node.text("domain")
    return Node(
        op=op if domain in _ONNX else f"{domain}.{op}",
        name=node.text("name"),
        inputs=tuple(node.texts("input")),
        outputs=tuple(node.texts("output")),
        attributes=dict(map(_attribute, node.inside("attribute"))),
    )


# In which field the value of an attribute is, and how it is read from there.
_VALUES: dict[str, Callable[[Message], object]] = {
    "f": lambda value: real(value.number("f") or 0),
    "i": lambda value: value.number("i"),
    "s": lambda value: value.text("s"),
    "t": lambda value: _tensor(value.inside("t")[-1])[1],
    "g": lambda value: _graph(value.inside("g")[-1]),
    "strings": lambda value: tuple(value.texts("strings")),
    "floats": lambda value: tuple(_floats(value)),
    "ints": lambda value: tuple(value.integers("ints")),
}


def _attribute(attribute: Message) -> tuple[str, object]:
    value = next((read(attribute) for key, read in _VALUES.items() if attribute.all(key)), ())
    return attribute.text("name"), value


def _floats(attribute: Message) -> list[float]:
    """Repeated floats, packed or not."""
    numbers: list[float] = []
    for value in attribute.all("floats"):
        numbers += [real(value)] if isinstance(value, int) else np.frombuffer(value, "<f4").tolist()
    return numbers


def _tensor(tensor: Message) -> tuple[str, Array]:
    name = tensor.text("name")
    if any(tensor.all("external_data")) or any(tensor.all("data_location")):
        raise ValueError(f"{name or 'a constant'} lies in another file")
    kind = tensor.number("data_type")
    kind = 1 if kind is None else kind
    if kind not in DTYPES:
        raise ValueError(f"{name or 'a constant'} has numbers of type {kind}")
    dtype = np.dtype(DTYPES[kind])
    raw = tensor.parts("raw_data")
    if raw:
        array = np.frombuffer(raw[-1], dtype.newbyteorder("<")).astype(dtype)
    else:
        whole = [tensor.integers(key) for key in ("int32_data", "int64_data", "uint64_data")]
        listed = [np.asarray(value) for value in whole if value]
        listed += [
            np.frombuffer(value, kind)
            for key, kind in _FLOATS.items()
            for value in tensor.parts(key)
        ]
        flat = np.concatenate(listed) if listed else np.zeros(0, dtype)
        as_bits = dtype == np.float16 and flat.dtype.kind == "i"
        array = flat.astype(np.uint16).view(np.float16) if as_bits else flat.astype(dtype)
    return name, array.reshape(tensor.integers("dims"))


def _declared(value: Message) -> Declared:
    name, dtype, shape = declaration(value)
    return Declared(name=name, dtype=DTYPES.get(dtype or 0, ""), shape=shape or ())


def declaration(value: Message) -> tuple[str, int | None, tuple[int | str, ...] | None]:
    """Name, number of the dtype and shape of a port; None for what the file does not say."""
    kind = value.one("type")
    tensor = kind.one("tensor_type") if kind else None
    shape = tensor.one("shape") if tensor else None
    sizes = None if shape is None else tuple(map(_size, shape.inside("dim")))
    return value.text("name"), tensor.number("elem_type") if tensor else None, sizes


def _size(dim: Message) -> int | str:
    """A number, the name of a size that varies, or a question mark."""
    size = dim.number("dim_value")
    return dim.text("dim_param") or ("?" if size is None else size)
