"""A captured graph in which everything that depends on no input has its value."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from roadworthy.operators.captured import lifted, name_of, row_of
from roadworthy.spec.signature import Signature

# A constant with more elements is a weight, not a threshold.
MOST_ELEMENTS = 4096
Constant = torch.Tensor | int | float


class ConstantGraph:
    """The nodes of a program, the ports at its ends, and the constants among its values."""

    def __init__(self, program: torch.export.ExportedProgram, signature: Signature) -> None:
        self.signature = signature
        self.nodes: list[Node] = list(program.graph.nodes)
        names = set(program.graph_signature.user_inputs)
        entering = [each for each in self.nodes if each.op == "placeholder" and each.name in names]
        leaving: Any = program.graph.find_nodes(op="output")[0].args[0]
        inputs, outputs = len(signature.inputs), len(signature.outputs)
        self.inputs = dict(
            zip((each.name for each in signature.inputs), entering[:inputs], strict=True)
        )
        remembered = [each.name for each in signature.memory]
        self.memory = dict(zip(remembered, entering[inputs:], strict=True))
        self.remembered = dict(zip(remembered, leaving[outputs:], strict=True))
        self._values = _small(program)
        with torch.no_grad():
            for node in self.nodes:
                self._fold(node)

    def constant(self, value: object) -> Constant | None:
        """The value of an argument that depends on no input; None where it does."""
        if isinstance(value, Node):
            return self._values.get(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return value
        return None

    def numbers(self, value: object) -> list[float]:
        """The finite numbers of a constant argument, or of a list of them."""
        if isinstance(value, (list, tuple)):
            return [number for each in value for number in self.numbers(each)]
        constant = self.constant(value)
        if constant is None:
            return []
        if not isinstance(constant, torch.Tensor):
            found = [float(constant)]
        elif constant.dtype in (torch.bool, torch.complex64, torch.complex128):
            found = []
        else:
            found = constant.detach().double().flatten().tolist()
        return [number for number in found if math.isfinite(number)]

    def source(self, node: object) -> object:
        """The node behind casts, copies and changes of shape."""
        while isinstance(node, Node) and (row_of(node.target).values == "same" or _takes_all(node)):
            node = node.args[0]
        return node

    def memory_of(self, node: object) -> str | None:
        """The name of the memory that a node hands on; None where it is none."""
        source = self.source(node)
        return next((name for name, each in self.memory.items() if each is source), None)

    def _fold(self, node: Node) -> None:
        if node.op != "call_function" or node.kwargs.get("out") is not None:
            return
        arguments = [*node.args, *node.kwargs.values()]
        if not any(isinstance(each, Node) for each in arguments) or not name_of(node.target):
            return
        if any(isinstance(each, Node) and each not in self._values for each in _nodes(arguments)):
            return
        size = getattr(node.meta.get("val"), "numel", lambda: MOST_ELEMENTS + 1)()
        if not isinstance(size, int) or size > MOST_ELEMENTS:
            return
        replaced = torch.fx.node.map_arg((node.args, node.kwargs), lambda each: self._values[each])
        try:
            # A copy first: an operator may write into what it was given.
            args, kwargs = torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, replaced)
            operator: Any = node.target
            result = operator(*args, **kwargs)
        except Exception:  # an operator that cannot run here says nothing about thresholds
            return
        if isinstance(result, (torch.Tensor, int, float)):
            self._values[node] = result


def _nodes(arguments: Any) -> Iterator[Node]:
    leaves = torch.utils._pytree.tree_leaves(arguments)
    yield from (each for each in leaves if isinstance(each, Node))


@dataclass(frozen=True, slots=True)
class Slice:
    """One axis of a value, and how many of its elements a slice keeps."""

    axis: int
    size: int
    kept: int


def slice_of(node: Node) -> Slice | None:
    """The slice that a node takes; None where it is none, or its sizes are symbols."""
    if row_of(node.target).name != "slice":
        return None
    given: list[Any] = list(node.args)
    given += [None, 0, 0, None, 1][len(given) :]
    held, axis, start, end, step = given
    size = held.meta["val"].shape[axis]
    if start in (None, 0) and (end is None or end is size or end == 2**63 - 1) and step == 1:
        # The whole axis, whether or not its size is a number.
        return Slice(axis, 0, 0)
    if not all(isinstance(each, int | None) for each in (size, start, end)):
        return None
    return Slice(axis, size, len(range(size)[start:end:step]))


def _takes_all(node: Node) -> bool:
    taken = slice_of(node)
    return taken is not None and taken.kept == taken.size


def _small(program: torch.export.ExportedProgram) -> dict[Node, Constant]:
    """Placeholder → the parameter, buffer or constant that it stands for; small ones only."""
    placeholders = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    return {
        placeholders[name]: value.detach()
        for name, value in lifted(program).items()
        if isinstance(value, torch.Tensor) and value.numel() <= MOST_ELEMENTS
    }
