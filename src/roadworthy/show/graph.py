"""The graph of the ONNX file as blocks that can be folded, each node with operator and size."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from roadworthy.show.page import section
from roadworthy.spec.bundle import LINES_KEY, POLICY
from roadworthy.spec.html import Html, tag
from roadworthy.spec.json_file import from_json
from roadworthy.spec.limits import size_text
from roadworthy.spec.onnx_file import ModelGraph, ModelNode, metadata, outline
from roadworthy.spec.port import DTYPES, shape_text

# More blocks than these are shown folded into one.
OPEN_BLOCKS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A node that has weights and those behind it that have none."""

    nodes: tuple[ModelNode, ...]
    weights: int
    size: int


def graph_section(model: bytes) -> Html:
    """The drawing of an ONNX file."""
    found, lines = outline(model), source_lines(model)
    made = list(blocks(found))
    total = sum(block.weights for block in made)
    most = max((block.weights for block in made), default=0)
    drawn = tag("ol", [_drawn(each, found, lines, most) for each in made], class_="graph")
    head = (
        f"{len(found.nodes)} nodes, {total:,} weights in {len(made)} blocks. A block is an "
        "operator with weights and what follows it; open one to see its nodes."
    )
    if len(made) > OPEN_BLOCKS:
        drawn = tag("details", tag("summary", f"all {len(made)} blocks"), drawn)
    return section("graph", "Graph", tag("p", head), drawn)


def source_lines(model: bytes) -> dict[str, str]:
    """Where a value is computed, by its name; nothing where the file does not say it."""
    text = metadata(model).get(LINES_KEY)
    said = from_json(text, where=f"{POLICY}, the lines inside") if text else {}
    known = said if isinstance(said, dict) else {}
    return {name: line for name, line in known.items() if isinstance(line, str)}


def blocks(found: ModelGraph) -> Iterator[Block]:
    """The nodes in the order in which they run, cut before each one that has large weights."""
    waiting: list[ModelNode] = []
    for node in found.nodes:
        # Scalars and short vectors belong to arithmetic, not to a layer.
        layer = any(
            len(found.weights[name][1]) > 1 for name in node.inputs if name in found.weights
        )
        if layer and waiting:
            yield _block(waiting, found)
            waiting = []
        waiting.append(node)
    if waiting:
        yield _block(waiting, found)


def _block(nodes: Sequence[ModelNode], found: ModelGraph) -> Block:
    weights = {name for node in nodes for name in node.inputs if name in found.weights}
    counts = {name: math.prod(found.weights[name][1]) for name in weights}
    sizes = [counts[name] * _itemsize(found.weights[name][0]) for name in weights]
    return Block(nodes=tuple(nodes), weights=sum(counts.values()), size=sum(sizes))


def _itemsize(dtype: str) -> int:
    return np.dtype(dtype).itemsize if dtype in DTYPES else 1


def _drawn(block: Block, found: ModelGraph, lines: Mapping[str, str], most: int) -> Html:
    operators = " → ".join(node.operator for node in block.nodes[:8])
    more = f" → … {len(block.nodes) - 8} more" if len(block.nodes) > 8 else ""
    part = round(100 * block.weights / most) if most else 0
    bar = tag("span", class_="weight-bar", style=f"--part:{part}%")
    size = f"{block.weights:,} weights, {size_text(block.size)}" if block.weights else "no weights"
    summary = tag("summary", tag("b", operators + more), tag("span", size, class_="quiet"), bar)
    return tag("li", tag("details", summary, _table(block.nodes, found, lines)))


def _table(nodes: Sequence[ModelNode], found: ModelGraph, lines: Mapping[str, str]) -> Html:
    rows = [row for node in nodes for row in _rows(node, found, lines, 0)]
    head = [tag("th", word) for word in ("operator", "takes", "gives", "weights", "line")]
    return tag("table", tag("thead", tag("tr", head)), tag("tbody", rows))


def _rows(
    node: ModelNode, found: ModelGraph, lines: Mapping[str, str], depth: int
) -> Iterator[Html]:
    takes = ", ".join(name for name in node.inputs if name and name not in found.weights)
    held = {name: found.weights[name] for name in node.inputs if name in found.weights}
    weights = ", ".join(
        f"{name} {dtype} {shape_text(shape)}" for name, (dtype, shape) in held.items()
    )
    place = next((lines[name] for name in node.outputs if name in lines), "")
    yield tag(
        "tr",
        tag("td", "\u2003" * depth + node.operator),
        *(tag("td", text) for text in (takes, ", ".join(node.outputs), weights)),
        tag("td", tag("code", place) if place else ""),
    )
    for name, branch in node.inside.items():
        yield tag("tr", tag("td", "\u2003" * (depth + 1) + f"{name}:", colspan=5, class_="quiet"))
        for each in branch:
            yield from _rows(each, found, lines, depth + 2)
