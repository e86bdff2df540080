"""Where the values of an input usually are: the statistics of the normaliser that it goes into."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.fx import Node

from roadworthy.capture.sampling.constants import ConstantGraph
from roadworthy.operators.captured import row_of
from roadworthy.spec.sampling import Typical

# More statistics than this belong to an image, and would only make the manifest long.
MOST_STATISTICS = 1024


def typical(graph: ConstantGraph) -> dict[str, Typical]:
    """Port → mean and spread, for each float input that is normalised as it comes in."""
    found = {}
    for port in graph.signature.inputs:
        if not port.dtype.startswith("float") or port.about.noise is not None:
            continue
        row = tuple(dim for dim in port.shape[1:] if isinstance(dim, int))
        for mean, spread in _normalized(graph, graph.inputs[port.name]):
            statistics = [_fitting(each, row) for each in (mean, spread)]
            if statistics[0] is not None and statistics[1] is not None:
                found[port.name] = Typical(mean=statistics[0], spread=statistics[1])
                break
    return found


def _normalized(
    graph: ConstantGraph, entering: Node
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    for node in graph.nodes:
        operator = row_of(node.target).name
        if operator == "batch_norm" and graph.source(node.args[0]) is entering:
            mean, variance = (graph.constant(each) for each in node.args[3:5])
            if isinstance(mean, torch.Tensor) and isinstance(variance, torch.Tensor):
                yield mean, (variance + float(node.args[7])).sqrt()  # type: ignore[arg-type]
        if operator in ("div", "mul"):
            centred, by = graph.source(node.args[0]), graph.constant(node.args[1])
            if by is None or not isinstance(centred, Node) or row_of(centred.target).name != "sub":
                continue
            mean = graph.constant(centred.args[1])
            if graph.source(centred.args[0]) is entering and mean is not None:
                scale = torch.as_tensor(by).double()
                spread = scale if operator == "div" else 1.0 / scale
                yield torch.as_tensor(mean).double(), spread


def _fitting(statistics: torch.Tensor, row: tuple[int, ...]) -> torch.Tensor | None:
    """The statistics in a shape that goes with one row; None where they do not."""
    values = statistics.double()
    while values.ndim > len(row) and values.shape[0] == 1:
        values = values[0]
    pairs = zip(reversed(values.shape), reversed(row), strict=False)
    fits = values.ndim <= len(row) and all(a in (1, b) for a, b in pairs)
    if not fits or values.numel() > MOST_STATISTICS or not bool(values.isfinite().all()):
        return None
    return values
