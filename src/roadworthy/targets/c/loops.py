"""Loops from places: strides are found again in the order in which elements are visited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from roadworthy.spec.port import Array

MOST_AXES = 6


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops, the outermost first: how often each runs, and by how much each column then moves."""

    extents: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    starts: tuple[int, ...]


def nest(columns: Sequence[Array]) -> Nest | None:
    """The loops that visit every column's places in order; None where no few loops do."""
    table = np.stack([np.asarray(each, dtype=np.int64) for each in columns])
    starts = tuple(int(each) for each in table[:, 0])
    extents: list[int] = []
    strides: list[tuple[int, ...]] = []
    while table.shape[1] > 1:
        inner = _inner(table)
        if inner == 1 or len(extents) == MOST_AXES:
            return None
        strides.insert(0, tuple(int(each) for each in table[:, 1] - table[:, 0]))
        extents.insert(0, inner)
        table = table[:, ::inner]
    return Nest(tuple(extents), tuple(strides), starts)


def _inner(table: Array) -> int:
    """The longest run at which all places move evenly, wherever it starts."""
    count = int(table.shape[1])
    step = (table[:, 1] - table[:, 0])[:, None]
    even = (np.diff(table, axis=1) == step).all(axis=0)
    breaks = np.flatnonzero(~even)
    if not len(breaks):
        return count
    longest = int(breaks[0]) + 1
    for inner in range(longest, 1, -1):
        # Every break must fall between two runs.
        if count % inner == 0 and ((breaks + 1) % inner == 0).all():
            return inner
    return 1


def tabled(columns: Sequence[Array]) -> tuple[Nest, list[int]]:
    """The loops, and which columns must be read from a table of places for them to exist."""
    count = len(columns[0])
    counting = np.arange(count)
    found = nest(columns)
    if found is not None:
        return found, []
    tables = [place for place, each in enumerate(columns) if nest([each, counting]) is None]
    kept = [counting if place in tables else each for place, each in enumerate(columns)]
    found = nest(kept)
    if found is None:  # each is even by itself, but in another rhythm
        tables = [
            place
            for place, each in enumerate(columns)
            if (np.diff(each) != each[1] - each[0]).any()
        ]
        kept = [counting if place in tables else each for place, each in enumerate(columns)]
        found = nest(kept)
    assert found is not None
    return found, tables
