"""Captured graphs: what a node is, where it comes from, and what lies before and behind it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.export.graph_signature import InputKind
from torch.fx import Node

from roadworthy.errors.lines import quoted_line
from roadworthy.operators.row import Operator
from roadworthy.operators.table import known


@functools.cache
def name_of(target: object) -> str:
    """`add_` for aten.add_.Tensor; empty for what is no operator of ATen."""
    name = str(getattr(getattr(target, "_schema", None), "name", ""))
    return name.removeprefix("aten::") if name.startswith("aten::") else ""


@functools.cache
def row_of(target: object) -> Operator:
    """What we know of an operator, whether or not it is done in place."""
    return known(name_of(target).rstrip("_"))


def line_of(node: Node) -> str:
    """The line of the user's code that a node comes from; empty where none is known."""
    return quoted_line(node.meta.get("stack_trace") or "")


def reached(starts: Iterable[Node], following: Callable[[Node], Iterable[Node]]) -> set[Node]:
    """The nodes at which a walk begins, and all that it comes to."""
    waiting = list(starts)
    found = set(waiting)
    while waiting:
        for node in following(waiting.pop()):
            if node not in found:
                found.add(node)
                waiting.append(node)
    return found


def varying(program: torch.export.ExportedProgram) -> set[Node]:
    """Inputs, memory, and what they enter: all other nodes give the same at every step."""
    entering = set(program.graph_signature.user_inputs)
    placeholders = program.graph.find_nodes(op="placeholder")
    return reached([node for node in placeholders if node.name in entering], lambda n: n.users)


def lifted(program: torch.export.ExportedProgram) -> dict[str, Any]:
    """Parameters, buffers and constants by the names of their placeholders, in their order."""
    found: dict[str, Any] = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind is not InputKind.USER_INPUT and spec.target is not None:
            held = program.state_dict.get(spec.target)
            found[spec.arg.name] = program.constants[spec.target] if held is None else held
    return found
