"""Values while C is written: leaves that say where numbers lie, and lazy trees over them.

A leaf is a buffer and an integer array of the value's shape that says where each element lies:
every operator that only moves numbers is then an operation of NumPy on that array.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from roadworthy.spec.port import Array

Role = Literal["input", "output", "work", "const", "iota"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Buffer:
    """Numbers of one type in a row.

    role  input and output are the caller's; work lies in the state; const is written into the file;
          iota has element i at place i, and is never stored
    data  what a const holds
    """

    dtype: np.dtype
    size: int
    role: Role
    name: str = ""
    data: Array | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """Elements of a buffer: `index` has the shape of the value."""

    buffer: Buffer
    index: Array = field(repr=False)

    @property
    def dtype(self) -> np.dtype:
        return self.buffer.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.index.shape

    @property
    def known(self) -> Array | None:
        """The numbers themselves, where they do not depend on the inputs."""
        if self.buffer.role == "iota":
            return self.index.astype(self.dtype)
        return None if self.buffer.data is None else self.buffer.data[self.index]


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """An elementwise operation that has not been written yet; `source` is what a Lookup reads."""

    op: str
    args: tuple[Value, ...]
    dtype: np.dtype
    shape: tuple[int, ...]
    source: Buffer | None = None

    @property
    def known(self) -> None:
        return None


Value = Leaf | Tree


def const(array: Array) -> Leaf:
    """A value that is written into the file; what is repeated by broadcasting is stored once."""
    array = np.asarray(array)
    if array.size > 1 and array.tobytes() == array.flat[0].tobytes() * array.size:
        return Leaf(_stored(array.flat[:1]), np.zeros(array.shape, np.int64))
    return Leaf(_stored(array.ravel()), np.arange(array.size).reshape(array.shape))


def _stored(flat: Array) -> Buffer:
    data = np.ascontiguousarray(flat)
    data.flags.writeable = False
    return Buffer(dtype=data.dtype, size=data.size, role="const", data=data)


def scalar(number: float, dtype: np.dtype | str) -> Leaf:
    return const(np.asarray(number, dtype=dtype))


def iota(index: Array) -> Leaf:
    """A value whose elements are the numbers of `index`, computed by the loop that reads it."""
    buffer = Buffer(dtype=np.dtype(np.int64), size=int(index.max(initial=0)) + 1, role="iota")
    return Leaf(buffer, np.asarray(index, dtype=np.int64))


def size(value: Value) -> int:
    return math.prod(value.shape)


def leaves(value: Value) -> Iterator[Leaf]:
    """Every leaf, from left to right."""
    if isinstance(value, Leaf):
        yield value
        return
    for each in value.args:
        yield from leaves(each)


def sources(value: Value) -> Iterator[Buffer]:
    """Every buffer that evaluating the value reads."""
    if isinstance(value, Leaf):
        if value.buffer.role != "iota":
            yield value.buffer
        return
    if value.source is not None:
        yield value.source
    for each in value.args:
        yield from sources(each)


def nodes(value: Value) -> int:
    """How many operations a tree has."""
    return 0 if isinstance(value, Leaf) else 1 + sum(map(nodes, value.args))


def moved(value: Value, move: Callable[[Array], Array]) -> Value:
    """The value after an operation of NumPy that only moves elements."""
    if isinstance(value, Leaf):
        return Leaf(value.buffer, move(value.index))
    args = tuple(moved(broadcast(each, value.shape), move) for each in value.args)
    shape = args[0].shape
    return Tree(value.op, args, value.dtype, shape, value.source)


def broadcast(value: Value, shape: tuple[int, ...]) -> Value:
    if value.shape == shape:
        return value
    if isinstance(value, Leaf):
        return Leaf(value.buffer, np.broadcast_to(value.index, shape))
    return Tree(value.op, value.args, value.dtype, shape, value.source)
