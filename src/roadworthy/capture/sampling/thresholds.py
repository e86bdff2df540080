"""The constants that a graph compares with: they say exactly where a policy changes its mind."""

from __future__ import annotations

import numpy as np

from roadworthy.capture.sampling.constants import ConstantGraph
from roadworthy.operators.captured import row_of

# A table of bins may have hundreds: so many are tried, spread over all.
MOST_THRESHOLDS = 32
# Larger ones are infinity by another name: the number that a mask puts in a forbidden place.
LARGEST = 1e8


def thresholds(graph: ConstantGraph) -> tuple[float, ...]:
    """The sizes of all thresholds, ascending; they are tried with both signs."""
    found: set[float] = set()
    for node in graph.nodes:
        row = row_of(node.target)
        found.update(row.thresholds)
        if row.compares and graph.constant(node) is None:
            for each in (*node.args, *node.kwargs.values()):
                found.update(abs(number) for number in graph.numbers(each))
    sizes = sorted(size for size in found if 0 < size <= LARGEST)
    if len(sizes) > MOST_THRESHOLDS:
        places = np.linspace(0, len(sizes) - 1, MOST_THRESHOLDS).round().astype(int)
        sizes = [sizes[place] for place in places.tolist()]
    return tuple(sizes)
