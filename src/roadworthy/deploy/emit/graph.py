"""An ONNX file with other ports around it: the policy inside keeps every node and weight."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from roadworthy.deploy.emit.emission import model_of
from roadworthy.spec.bundle import SUMS, Bundle
from roadworthy.spec.port import BATCH, Array

# Under this key the file says which bundle it was made from: the sum of its SHA256SUMS.
_OWN_KEYS = "roadworthy."
BUNDLE_KEY = f"{_OWN_KEYS}bundle"
_INSIDE = "policy/"
FLOAT = onnx.TensorProto.FLOAT
Shape = Sequence[int | str]


def digest(bundle: Bundle) -> str:
    """What names the bundle: the sum of its sums."""
    return hashlib.sha256((bundle.folder / SUMS).read_bytes()).hexdigest()


def properties(bundle: Bundle) -> dict[str, str]:
    """What the file says about its environment; not what Roadworthy says of its own."""
    model = onnx.load_from_string(model_of(bundle))
    entries = {entry.key: entry.value for entry in model.metadata_props}
    return {key: value for key, value in entries.items() if not key.startswith(_OWN_KEYS)}


class Graph:
    """A policy whose ports are replaced one by one; `bytes` is the file that results.

    `model` stands for the policy where only a part of it is wanted.
    """

    def __init__(self, bundle: Bundle, model: onnx.ModelProto | None = None) -> None:
        self._model = onnx.load_from_string(model_of(bundle)) if model is None else model
        # Inside, every name gets a prefix: those of the new ports are then free.
        _add_prefix(self._model.graph)
        self.metadata = {BUNDLE_KEY: digest(bundle)}
        self._before: list[onnx.NodeProto] = []
        del self._model.graph.input[:]
        del self._model.graph.output[:]

    def input(self, name: str, shape: Shape, dtype: int = FLOAT) -> None:
        """Adds an input."""
        self._model.graph.input.append(helper.make_tensor_value_info(name, dtype, list(shape)))

    def output(self, name: str, shape: Shape, dtype: int = FLOAT) -> None:
        """Adds an output."""
        self._model.graph.output.append(helper.make_tensor_value_info(name, dtype, list(shape)))

    def before(self, operator: str, inputs: Sequence[str], result: str, **attributes: Any) -> None:
        """Adds a node in front of the policy."""
        self._before.append(helper.make_node(operator, inputs, [result], **attributes))

    def behind(self, operator: str, inputs: Sequence[str], result: str, **attributes: Any) -> None:
        """Adds a node behind the policy."""
        self._model.graph.node.append(helper.make_node(operator, inputs, [result], **attributes))

    def constant(self, name: str, values: Any, dtype: type = np.int64) -> str:
        """The name of a new constant."""
        tensor = numpy_helper.from_array(np.asarray(values, dtype), name)
        self._model.graph.initializer.append(tensor)
        return name

    def number(self, name: str, values: Any) -> None:
        """Adds an output that always is these numbers."""
        array: Array = np.asarray(values, np.float32)
        self.output(self.constant(name, array, np.float32), array.shape)

    def bytes(self) -> bytes:
        """The file, checked."""
        nodes = [*self._before, *self._model.graph.node]
        del self._model.graph.node[:]
        self._model.graph.node.extend(nodes)
        del self._model.metadata_props[:]
        helper.set_model_props(self._model, self.metadata)
        onnx.checker.check_model(self._model)
        return bytes(self._model.SerializeToString(deterministic=True))


def _add_prefix(graph: onnx.GraphProto) -> None:
    """Changes every name in a graph and in the graphs inside of its nodes."""
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        value.name = inside(value.name)
    for node in graph.node:
        node.name = inside(node.name)
        for names in (node.input, node.output):
            names[:] = [inside(name) if name else name for name in names]
        for branch in branches(node):
            _add_prefix(branch)


def branches(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs inside of a node, such as those of an `If`."""
    for attribute in node.attribute:
        yield from [attribute.g] if attribute.HasField("g") else attribute.graphs


def inside(name: str) -> str:
    """What a port of the policy is called inside."""
    return _INSIDE + name


def sizes(shape: Shape, rows: int | str = BATCH) -> list[int | str]:
    """The shape with `rows` for the number of rows."""
    return [rows if dim == BATCH else dim for dim in shape]


def renamed(bundle: Bundle, names: Mapping[str, str], rows: int | str, kept: str) -> Graph:
    """The policy with other names for its inputs, and `kept` as its only output."""
    graph, signature = Graph(bundle), bundle.signature
    for port in signature.inputs:
        graph.input(names[port.name], sizes(port.shape, rows))
        graph.before("Identity", [names[port.name]], inside(port.name))
    (given,) = (port for port in signature.outputs if port.name == kept)
    graph.behind("Identity", [inside(kept)], names[kept])
    graph.output(names[kept], sizes(given.shape, rows))
    return graph
