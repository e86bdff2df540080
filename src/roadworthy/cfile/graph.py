"""An ONNX file as plain data: nodes, constants, ports. Read without onnx."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from roadworthy.cfile.protobuf import Field, fields, integers, real, signed
from roadworthy.errors import BundleError
from roadworthy.spec.port import Array

DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
    9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64",
}  # fmt: skip
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
    graphs = [_graph(_part(each)) for number, each in fields(message) if number == 7]
    if any(number == 25 for number, _ in fields(message)):
        raise ValueError("it has functions of its own, which Roadworthy never writes")
    if len(graphs) != 1:
        raise ValueError("it holds no graph")
    return graphs[0]


def _part(content: Field) -> memoryview:
    if isinstance(content, int):
        raise ValueError("a number stands where a message should")
    return content


def _text(content: Field) -> str:
    return str(_part(content), "utf-8")


def _graph(message: memoryview) -> Graph:
    ports = dict[int, list[Declared]]({11: [], 12: []})
    constants = dict[str, Array]()
    nodes = list[Node]()
    for number, content in fields(message):
        if number == 1:
            nodes.append(_node(_part(content)))
        elif number == 5:
            name, array = _tensor(_part(content))
            constants[name] = array
        elif number in ports:
            ports[number].append(_declared(_part(content)))
    return Graph(
        nodes=tuple(nodes), constants=constants, inputs=tuple(ports[11]), outputs=tuple(ports[12])
    )


def _node(message: memoryview) -> Node:
    names = dict[int, list[str]]({1: [], 2: []})
    texts = {3: "", 4: "", 7: ""}
    attributes = dict[str, object]()
    for number, content in fields(message):
        if number in names:
            names[number].append(_text(content))
        elif number in texts:
            texts[number] = _text(content)
        elif number == 5:
            name, value = _attribute(_part(content))
            attributes[name] = value
    op = f"{texts[7]}.{texts[4]}" if texts[7] not in ("", "ai.onnx") else texts[4]
    return Node(
        op=op, name=texts[3], inputs=tuple(names[1]), outputs=tuple(names[2]), attributes=attributes
    )


def _attribute(message: memoryview) -> tuple[str, object]:
    name = ""
    value: object = None
    floats, ints, strings = list[float](), list[int](), list[str]()
    for number, content in fields(message):
        if number == 1:
            name = _text(content)
        elif number == 2 and isinstance(content, int):
            value = real(content)
        elif number == 3 and isinstance(content, int):
            value = signed(content)
        elif number == 4:
            value = _text(content)
        elif number == 5:
            value = _tensor(_part(content))[1]
        elif number == 6:
            value = _graph(_part(content))
        elif number == 7:
            floats += [real(content)] if isinstance(content, int) else _floats(content)
        elif number == 8:
            ints += integers(content)
        elif number == 9:
            strings.append(_text(content))
    if value is None:
        lists: tuple[list[str] | list[float] | list[int], ...] = (strings, floats, ints)
        value = next((tuple(each) for each in lists if each), ())
    return name, value


def _floats(packed: memoryview) -> list[float]:
    return [float(each) for each in np.frombuffer(packed, "<f4")]


def _tensor(message: memoryview) -> tuple[str, Array]:
    name, dims, dtype, raw = "", list[int](), "float32", None
    numbers = list[Array]()
    for number, content in fields(message):
        if number == 1:
            dims += integers(content)
        elif number == 2 and isinstance(content, int):
            dtype = DTYPES[content]
        elif number == 8:
            name = _text(content)
        elif number == 9:
            raw = _part(content)
        elif number in (5, 7, 11):
            numbers.append(np.asarray(integers(content), dtype=np.int64))
        elif number in _NUMBERS and not isinstance(content, int):
            numbers.append(np.frombuffer(content, _NUMBERS[number]))
        elif number in (13, 14) and content:
            raise ValueError(f"{name or 'a constant'} lies in another file")
    if raw is not None:
        array = np.frombuffer(raw, np.dtype(dtype).newbyteorder("<")).astype(dtype)
    else:
        flat = np.concatenate(numbers) if numbers else np.zeros(0, dtype)
        as_bits = dtype == "float16" and flat.dtype.kind == "i"
        array = flat.astype(np.uint16).view(np.float16) if as_bits else flat.astype(dtype)
    return name, array.reshape(dims)


def _declared(message: memoryview) -> Declared:
    name, dtype, shape = "", "", list[int | str]()
    for number, content in fields(message):
        if number == 1:
            name = _text(content)
        elif number == 2:
            for kind, tensor in fields(_part(content)):
                if kind == 1:
                    dtype, shape = _tensor_type(_part(tensor))
    return Declared(name=name, dtype=dtype, shape=tuple(shape))


def _tensor_type(message: memoryview) -> tuple[str, list[int | str]]:
    dtype, shape = "", list[int | str]()
    for number, content in fields(message):
        if number == 1 and isinstance(content, int):
            dtype = DTYPES.get(content, "")
        elif number == 2:
            for _, dim in fields(_part(content)):
                known: int | str = "?"
                for part, size in fields(_part(dim)):
                    known = (
                        _text(size)
                        if part == 2
                        else signed(int(size))
                        if isinstance(size, int)
                        else "?"
                    )
                shape.append(known)
    return dtype, shape
