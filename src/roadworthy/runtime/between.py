"""The ticks between two decisions as a model of their own, taken out of a file of two rates.

Such a file holds both rates in one If, and every tick pays for it: for the If itself, for each
memory that is handed on as it is, for zeros in the place of actions. The nodes here are the very
ones of the file's branch, without those.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from roadworthy.spec.onnx_wire import MESSAGES, Field, Message, NotAModel, fields
from roadworthy.spec.signature import Signature


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
    message: Message
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operator: str

    @classmethod
    def of(cls, message: Message) -> _Node:
        ins, outs = (tuple(message.texts(side)) for side in ("input", "output"))
        return cls(message, ins, outs, message.text("op_type"))

    def branch(self, name: str) -> Message | None:
        for attribute in self.message.inside("attribute"):
            if attribute.text("name") == name:
                return next(iter(attribute.inside("g")), None)
        return None

    @property
    def nests(self) -> bool:
        attributes = self.message.inside("attribute")
        return any(attribute.all("g") or attribute.all("graphs") for attribute in attributes)


def between(model: bytes, signature: Signature) -> Between | None:
    """The ticks of a file of two rates; None where its form is not the one that we write."""
    try:
        whole = Message(model)
        (graph,) = whole.inside("graph")
        (choice,) = [n for n in map(_Node.of, graph.inside("node")) if n.operator == "If"]
        applies = choice.branch("else_branch")
    except (NotAModel, ValueError):
        return None
    return None if applies is None else _taken_out(whole, graph, choice, applies, signature)


def _taken_out(
    whole: Message, graph: Message, choice: _Node, applies: Message, signature: Signature
) -> Between | None:
    ports = {entry.name for entry in signature.outputs} | {
        entry.output for entry in signature.memory
    }
    if ports != set(choice.outputs):  # something is computed behind the choice
        return None
    nodes = [_Node.of(entry) for entry in applies.inside("node")]
    infos = applies.inside("output")
    inner = dict(zip(choice.outputs, (info.text("name") for info in infos), strict=True))
    entering = {entry.text("name"): entry for entry in graph.inside("input")}
    constants = {
        entry.text("name"): entry
        for part in (graph, applies)
        for entry in part.inside("initializer")
    }
    maker = {name: node for node in nodes for name in node.outputs}
    handed_on = {
        entry.output
        for entry in signature.memory
        if (node := maker.get(inner[entry.output]))
        and (node.operator, node.inputs) == ("Identity", (entry.input,))
    }
    needed = {port: _needed(name, maker) for port, name in inner.items() if port not in handed_on}
    constant = tuple(port for port, names in needed.items() if not names & entering.keys())
    if any(entry.output in constant for entry in signature.memory):
        return None
    kept = [port for port in needed if port not in constant]
    used = set().union(*(needed[port] for port in kept)) if kept else set()
    reads = tuple(name for name in entering if name in used)
    known = entering.keys() | constants.keys() | maker.keys()
    if not kept or not reads or used - known or any(node.nests for node in nodes):
        return None
    read = [entry for name, entry in constants.items() if name in used and name not in entering]
    given = [info for port, info in zip(choice.outputs, infos, strict=True) if port in kept]
    tick = {
        "node": [node.message.content for node in nodes if used.intersection(node.outputs)],
        "name": [memoryview(b"between")],
        "initializer": [entry.content for entry in read],
        "input": [entering[name].content for name in reads],
        "output": [entry.content for entry in given],
    }
    number = {key: number for key, (number, _) in MESSAGES["graph"].items()}
    inside = _message((number[key], entry) for key, contents in tick.items() for entry in contents)
    (at, _), (metadata, _) = (MESSAGES["model"][key] for key in ("graph", "metadata_props"))
    rest = [entry for entry in fields(whole.content) if entry[0] not in (at, metadata)]
    written = _message([*rest, (at, memoryview(inside))])
    return Between(written, reads, {port: inner[port] for port in kept}, constant)


def _needed(name: str, maker: dict[str, _Node]) -> set[str]:
    """The names that a value is computed from, its own among them."""
    made: set[str] = set()
    waiting = [name]
    while waiting:
        entry = waiting.pop()
        if entry and entry not in made:
            made.add(entry)
            waiting += maker[entry].inputs if entry in maker else ()
    return made


def _message(parts: Iterable[tuple[int, Field]]) -> bytes:
    return b"".join(_written(number, value) for number, value in parts)


def _written(number: int, value: Field) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + bytes(value)


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    return bytes([*made, number])
