"""Loops visit the places that they were made from, in that order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from roadworthy.targets.c.loops import nest, tabled


def visited(found, column: int) -> list[int]:  # type: ignore[no-untyped-def]
    ranges = [range(extent) for extent in found.extents]
    return [
        found.starts[column]
        + sum(i * stride[column] for i, stride in zip(index, found.strides, strict=True))
        for index in itertools.product(*ranges)
    ]


GRID = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)


@pytest.mark.parametrize(
    ("places", "axes"),
    [
        (np.arange(12), 1),
        (np.arange(12)[::-1] * 2 + 3, 1),
        (GRID.transpose(0, 2, 3, 1), 3),
        (GRID[:, ::2, 1:3], 3),
        (np.broadcast_to(np.arange(6), (4, 6)), 2),
        (np.zeros(7, int), 1),
        (np.array([5]), 0),
    ],
)
def test_loops_of_a_view_are_its_axes(places: np.ndarray, axes: int) -> None:
    found = nest([places.ravel(), np.arange(places.size)])
    assert found is not None
    assert visited(found, 0) == places.ravel().tolist()
    assert visited(found, 1) == list(range(places.size))
    assert len(found.extents) == axes


def test_places_without_a_rhythm_get_a_table() -> None:
    odd = np.array([4, 1, 9, 2, 2, 7, 0])
    found, tables = tabled([np.arange(7), odd, np.arange(7) * 3])
    assert tables == [1]
    assert visited(found, 2) == (np.arange(7) * 3).tolist()


def test_rhythms_that_do_not_fit_together_get_tables_too() -> None:
    two, three = np.tile([0, 5], 6), np.tile([0, 1, 9], 4)
    found, tables = tabled([np.arange(12), two, three])
    for column, places in enumerate((np.arange(12), two, three)):
        if column not in tables:
            assert visited(found, column) == places.tolist()
    assert tables
