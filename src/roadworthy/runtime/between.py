"""The ticks between two decisions as a model of their own, taken out of a file of two rates.

Such a file holds both rates in one If, and every tick pays for it: for the If itself, for each
memory that is handed on as it is, for zeros in the place of actions. The nodes here are the very
ones of the file's branch, without those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from roadworthy.spec.onnx_file import messages, name_in, text
from roadworthy.spec.onnx_wire import Field, NotAModel, fields
from roadworthy.spec.signature import Signature

# Field numbers of onnx.proto.
_GRAPH, _METADATA = 7, 14
_NODES, _GRAPH_NAME, _INITIALIZERS, _INPUTS, _OUTPUTS = 1, 2, 5, 11, 12
_NODE_INPUTS, _NODE_OUTPUTS, _OP_TYPE, _ATTRIBUTES = 1, 2, 4, 5
_ATTRIBUTE_NAME, _BRANCH, _BRANCHES = 1, 6, 11
_VALUE_NAME, _TENSOR_NAME = 1, 8


@dataclass(frozen=True, slots=True, eq=False)
class Between:
    """What a tick computes: `model` reads `inputs`, and gives `outputs`, port → name in the model.

    `constant` are the ports that are the same at every tick; memory that is in neither is handed
    on as it is.
    """

    model: bytes = field(repr=False)
    inputs: tuple[str, ...]
    outputs: dict[str, str]
    constant: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Node:
    message: memoryview
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operator: str

    @classmethod
    def of(cls, message: memoryview) -> _Node:
        ins = tuple(text(v) for n, v in fields(message) if n == _NODE_INPUTS)
        outs = tuple(text(v) for n, v in fields(message) if n == _NODE_OUTPUTS)
        return cls(message, ins, outs, name_in(message, _OP_TYPE))

    def branch(self, name: str) -> memoryview | None:
        for attribute in messages(self.message, _ATTRIBUTES):
            if name_in(attribute, _ATTRIBUTE_NAME) == name:
                return next(messages(attribute, _BRANCH), None)
        return None

    @property
    def nests(self) -> bool:
        return any(
            number in (_BRANCH, _BRANCHES)
            for attribute in messages(self.message, _ATTRIBUTES)
            for number, _ in fields(attribute)
        )


def between(model: bytes, signature: Signature) -> Between | None:
    """The ticks of a file of two rates; None where its form is not the one that we write."""
    try:
        whole = memoryview(model)
        (graph,) = messages(whole, _GRAPH)
        (choice,) = [n for n in map(_Node.of, messages(graph, _NODES)) if n.operator == "If"]
        applies = choice.branch("else_branch")
    except (NotAModel, UnicodeDecodeError, ValueError):
        return None
    return None if applies is None else _taken_out(whole, graph, choice, applies, signature)


def _taken_out(
    whole: memoryview, graph: memoryview, choice: _Node, applies: memoryview, signature: Signature
) -> Between | None:
    ports = {each.name for each in signature.outputs} | {each.output for each in signature.memory}
    if ports != set(choice.outputs):  # something is computed behind the choice
        return None
    nodes = [_Node.of(each) for each in messages(applies, _NODES)]
    infos = list(messages(applies, _OUTPUTS))
    inner = dict(zip(choice.outputs, (name_in(i, _VALUE_NAME) for i in infos), strict=True))
    entering = {name_in(each, _VALUE_NAME): each for each in messages(graph, _INPUTS)}
    constants = {
        name_in(each, _TENSOR_NAME): each
        for part in (graph, applies)
        for each in messages(part, _INITIALIZERS)
    }
    maker = {name: node for node in nodes for name in node.outputs}
    handed_on = {
        each.output
        for each in signature.memory
        if (node := maker.get(inner[each.output]))
        and (node.operator, node.inputs) == ("Identity", (each.input,))
    }
    needed = {port: _needed(name, maker) for port, name in inner.items() if port not in handed_on}
    constant = tuple(port for port, names in needed.items() if not names & entering.keys())
    if any(each.output in constant for each in signature.memory):
        return None
    kept = [port for port in needed if port not in constant]
    used = set().union(*(needed[port] for port in kept)) if kept else set()
    reads = tuple(name for name in entering if name in used)
    known = entering.keys() | constants.keys() | maker.keys()
    if not kept or not reads or used - known or any(node.nests for node in nodes):
        return None
    tick = [
        *((_NODES, node.message) for node in nodes if used.intersection(node.outputs)),
        (_GRAPH_NAME, memoryview(b"between")),
        *(
            (_INITIALIZERS, each)
            for name, each in constants.items()
            if name in used and name not in entering
        ),
        *((_INPUTS, entering[name]) for name in reads),
        *(
            (_OUTPUTS, info)
            for port, info in zip(choice.outputs, infos, strict=True)
            if port in kept
        ),
    ]
    rest = [each for each in fields(whole) if each[0] not in (_GRAPH, _METADATA)]
    written = _message([*rest, (_GRAPH, memoryview(_message(tick)))])
    return Between(written, reads, {port: inner[port] for port in kept}, constant)


def _needed(name: str, maker: dict[str, _Node]) -> set[str]:
    """The names that a value is computed from, its own among them."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        each = waiting.pop()
        if each and each not in found:
            found.add(each)
            waiting += maker[each].inputs if each in maker else ()
    return found


def _message(parts: Sequence[tuple[int, Field]]) -> bytes:
    return b"".join(_written(number, value) for number, value in parts)


def _written(number: int, value: Field) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + bytes(value)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])
