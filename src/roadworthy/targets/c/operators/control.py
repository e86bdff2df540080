"""Branches, and sequences whose length is known."""

from __future__ import annotations

import numpy as np

from roadworthy.spec.onnx_graph import Graph, Node
from roadworthy.targets.c.lowering import Inputs, Lower, Lowering, Result, Unsupported
from roadworthy.targets.c.operators.reading import every, given, integer, known, needed
from roadworthy.targets.c.operators.views import joined, taken, view
from roadworthy.targets.c.values import Value


def _body(node: Node, name: str) -> Graph:
    body = node.attributes.get(name)
    if not isinstance(body, Graph):
        raise Unsupported(f"no {name}")
    return body


def _if(walk: Lowering, node: Node, inputs: Inputs) -> list[Result]:
    bodies = [_body(node, "then_branch"), _body(node, "else_branch")]
    return walk.branch(needed(inputs, 0), bodies, node.outputs)


def _listed(inputs: Inputs, place: int) -> list[Value]:
    found = inputs[place]
    if not isinstance(found, list):
        raise Unsupported("a value where a sequence should be")
    return found


def _construct(walk: Lowering, node: Node, inputs: Inputs) -> list[Result]:
    return [every(inputs)]


def _at(walk: Lowering, node: Node, inputs: Inputs) -> list[Result]:
    return [_listed(inputs, 0)[int(known(inputs, 1, "a position").item())]]


def _map(walk: Lowering, node: Node, inputs: Inputs) -> list[Result]:
    """The body once for each element of the first sequence; other sequences go along."""
    body = _body(node, "body")
    results: list[list[Value]] = [[] for _ in node.outputs]
    for position in range(len(_listed(inputs, 0))):
        now: dict[str, Result] = {}
        for declared, each in zip(body.inputs, inputs, strict=True):
            chosen = each[position] if isinstance(each, list) else each
            if chosen is None:
                raise Unsupported("an input is missing")
            now[declared.name] = chosen
        for side, value in zip(results, walk.inlined(body, now), strict=True):
            if isinstance(value, list):
                raise Unsupported("a sequence of sequences")
            side.append(walk.stored(value))
    return list(results)


def _concatenated(walk: Lowering, node: Node, inputs: Inputs) -> list[Result]:
    parts, axis = _listed(inputs, 0), integer(node, "axis", 0)
    if integer(node, "new_axis", 0):
        parts = [view(walk, each, lambda index: np.expand_dims(index, axis)) for each in parts]
    return [joined(walk, parts, axis)]


def _split(walk: Lowering, node: Node, inputs: Inputs) -> list[Result]:
    x, axis = walk.stored(needed(inputs, 0)), integer(node, "axis", 0)
    if given(inputs, 1) is not None:
        raise Unsupported("lengths of its own")
    keep = integer(node, "keepdims", 1)
    return [[
        taken(walk, x, *(slice(None),) * (axis % len(x.shape)), slice(i, i + 1) if keep else i)
        for i in range(x.shape[axis])
    ]]  # fmt: skip


OPERATORS: dict[str, Lower] = {
    "If": _if,
    "SequenceConstruct": _construct,
    "SequenceAt": _at,
    "SequenceMap": _map,
    "ConcatFromSequence": _concatenated,
    "SplitToSequence": _split,
}
