"""What the C will do, step by step: stores, calls of kernels, branches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from roadworthy.spec.port import Array
from roadworthy.targets.c.values import Buffer, Leaf, Value, leaves, sources

# A buffer → the C expression of its address.
Address = Callable[[Buffer], str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Store:
    """`target[places[i]] = value[i]`, element after element."""

    target: Buffer
    places: Array = field(repr=False)
    value: Value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scatter:
    """`target[place[i]] = value[i]` where the places are computed; `how` joins old and new."""

    target: Buffer
    place: Value
    value: Value
    how: str = "none"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Call:
    """A kernel: `text` gives its lines, once every buffer has an address."""

    text: Callable[[Address], list[str]]
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Branch:
    """One of two ways; the condition is one stored element."""

    condition: Leaf
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


Statement = Store | Scatter | Call | Branch


def touched(statement: Statement) -> Iterator[Buffer]:
    """Each buffer that the statement itself reads or writes."""
    if isinstance(statement, Call):
        yield from (*statement.reads, *statement.writes)
    elif isinstance(statement, Branch):
        yield statement.condition.buffer
    else:
        yield from sources(statement.value)
        if isinstance(statement, Scatter):
            yield from sources(statement.place)
        yield statement.target


def flat(statements: tuple[Statement, ...]) -> Iterator[Statement]:
    """The statements in the order of the text, branches and what is in them."""
    for each in statements:
        yield each
        if isinstance(each, Branch):
            yield from flat(each.then)
            yield from flat(each.otherwise)


def natural_order(value: Value) -> Array | None:
    """The order in which a value is best written: that of its largest leaf in memory.

    None where the order of its shape is as good.
    """
    for leaf in leaves(value):
        if leaf.shape != value.shape or leaf.buffer.role in ("const", "iota"):
            continue
        places = leaf.index.ravel()
        if (np.diff(places) > 0).all():
            return None
        order = np.argsort(places, kind="stable")
        if (np.diff(places[order]) > 0).all():
            return order
    return None
