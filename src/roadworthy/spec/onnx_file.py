"""What an ONNX file says of itself, read without onnx and without making a session of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from roadworthy.spec.onnx_graph import DTYPES, declaration
from roadworthy.spec.onnx_wire import Message, NotAModel

# Deeper branches than any exporter writes are not followed.
_DEEPEST = 16
# NumPy has none of these: they are named, and not computed with.
_NAMED = DTYPES | {8: "string", 16: "bfloat16"}


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
    try:
        entries = Message(model).inside("metadata_props")
        return {entry.text("key"): entry.text("value") for entry in entries}
    except NotAModel:  # cut short, or never one
        return {}


def external_data(model: bytes) -> str | None:
    """The name of the first tensor whose values are in another file; None where there is none.

    Everything is looked at that onnxruntime's own reader would look at, and whatever the two
    could understand differently is no model: a hidden tensor would be a hole.
    """
    for message in Message(model).walk():
        if message.kind == "tensor" and any(
            (*message.all("external_data"), *message.all("data_location"))
        ):
            return message.text("name")
    return None


def summary(model: bytes) -> ModelSummary:
    """The ports, operators and opsets of any ONNX file."""
    whole = Message(model)
    graphs = whole.inside("graph")
    weights = {message.text("name") for one in graphs for message in one.inside("initializer")}
    sides: tuple[Literal["input", "output"], ...] = ("input", "output")
    ports = [
        _port(side, message) for side in sides for one in graphs for message in one.inside(side)
    ]
    counted = Counter(_operator(message) for message in whole.walk() if message.kind == "node")
    opsets = whole.inside("opset_import")
    return ModelSummary(
        ports=tuple(port for port in ports if port.name not in weights),
        operators=dict(counted.most_common()),
        opsets={message.text("domain"): message.number("version") or 0 for message in opsets},
        producer=whole.text("producer_name"),
    )


def outline(model: bytes) -> ModelGraph:
    """The nodes and weights of an ONNX file; branches nest no deeper than _DEEPEST."""
    graphs = Message(model).inside("graph")
    tensors = [message for one in graphs for message in one.inside("initializer")]
    weights = {
        message.text("name"): (_dtype(message.number("data_type")), tuple(message.integers("dims")))
        for message in tensors
    }
    return ModelGraph(
        nodes=tuple(n for message in graphs for n in _nodes(message, 0)), weights=weights
    )


def _nodes(graph: Message, depth: int) -> tuple[ModelNode, ...]:
    if depth > _DEEPEST:
        raise NotAModel("its branches nest too deeply to be shown")
    return tuple(
        ModelNode(
            operator=_operator(node),
            inputs=tuple(node.texts("input")),
            outputs=tuple(node.texts("output")),
            inside={
                attribute.text("name"): _nodes(branch, depth + 1)
                for attribute in node.inside("attribute")
                for branch in attribute.inside("g")
            },
        )
        for node in graph.inside("node")
    )


def _port(side: Literal["input", "output"], value: Message) -> ModelPort:
    name, dtype, shape = declaration(value)
    return ModelPort(side=side, name=name, dtype=_dtype(dtype), shape=shape)


def _dtype(number: int | None) -> str:
    return "?" if number is None else _NAMED.get(number, f"type {number}")


def _operator(node: Message) -> str:
    domain, operator = node.text("domain"), node.text("op_type")
    return f"{domain}.{operator}" if domain else operator
