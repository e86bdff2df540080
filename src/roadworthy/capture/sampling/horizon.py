"""How many steps it takes until a policy has shown all that it does with its memory.

A delay shows after as many steps as its queue is long; a counter when it comes to the constant
that it is compared with, clipped to or wrapped at.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, cast

from torch.fx import Node

from roadworthy.capture.sampling.constants import ConstantGraph, slice_of
from roadworthy.operators.captured import row_of
from roadworthy.spec.port import leaves


def horizon(graph: ConstantGraph) -> int:
    """The steps after which memory holds nothing new; 0 where it holds no queue and no counter."""
    queues = [length for node in graph.nodes for length in _queue(graph, node)]
    counters = [steps for name in graph.memory for steps in _counter(graph, name)]
    return max([0, _chain(graph), *queues, *counters])


def _queue(graph: ConstantGraph, node: Node) -> Iterator[int]:
    """The steps until what entered a shift register at one end has left it at the other."""
    if row_of(node.target).name not in ("slice", "roll") or graph.memory_of(node.args[0]) is None:
        return
    for size, by in _moved(node):
        if isinstance(size, int) and 0 < by < size:
            yield math.ceil(size / by)


def _moved(node: Node) -> Iterator[tuple[int, int]]:
    """The sizes of the axes along which a queue moves, and how far at once."""
    taken = slice_of(node)
    if taken is not None:
        yield taken.size, taken.size - taken.kept
    elif row_of(node.target).name == "roll" and len(node.args) > 2:
        held, shifts, axes, *_ = cast("tuple[Any, Any, Any]", node.args)
        for by, axis in zip(_listed(shifts), _listed(axes), strict=True):
            yield held.meta["val"].shape[axis], abs(by)


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _chain(graph: ConstantGraph) -> int:
    """The longest row of memories in which each takes over what the one before it held."""
    before = {name: graph.memory_of(node) for name, node in graph.remembered.items()}
    longest = 0
    for name in before:
        seen = [name]
        while (earlier := before.get(seen[-1])) is not None and earlier not in seen:
            seen.append(earlier)
        longest = max(longest, len(seen) if len(seen) > 1 else 0)
    return longest


def _counter(graph: ConstantGraph, name: str) -> Iterator[int]:
    """The steps until a memory that grows by a constant comes to what it is compared with."""
    gains: dict[Node, float] = {graph.memory[name]: 1.0}
    increments: list[float] = []
    ends: list[float] = []
    for node in graph.nodes:
        behind = [each for each in node.all_input_nodes if each in gains]
        if not behind:
            continue
        gain, row = gains[behind[0]], row_of(node.target)
        constants = [
            number for each in node.args if each not in gains for number in graph.numbers(each)
        ]
        if row.compares:
            ends += [abs(number) / gain for number in constants]
        if row.name in ("add", "sub"):
            if constants:
                increments += [abs(number) / gain for number in constants if number]
                gains[node] = gain
        elif row.name in ("mul", "div") and len(constants) == 1 and constants[0]:
            by = abs(constants[0])
            gains[node] = gain * by if row.name == "mul" else gain / by
        elif row.counts or graph.source(node) is not node:
            gains[node] = gain
    if graph.remembered[name] in gains and increments:
        memory = next(each for each in graph.signature.memory if each.name == name)
        start = max(abs(float(number)) for number in leaves(memory.initial))
        yield from (math.ceil((end + start) / min(increments)) for end in ends)
