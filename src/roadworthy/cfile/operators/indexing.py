"""Operators that find elements by number: known numbers move, computed ones look up.

A number outside of its axis has no meaning in ONNX; here it takes the nearest that has one, so that
no input can make the C read or write past its buffers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from roadworthy.cfile.elementwise import elementwise
from roadworthy.cfile.graph import Node
from roadworthy.cfile.lowering import Lower, Lowering, Result, Unsupported
from roadworthy.cfile.operators.reading import integer, known, needed, text
from roadworthy.cfile.operators.views import taken, view
from roadworthy.cfile.values import Leaf, Tree, Value, const, iota, scalar, size
from roadworthy.spec.port import Array

Inputs = Sequence[Result | None]
WHOLE = np.dtype(np.int64)


def _wrapped(index: Value, length: int) -> Value:
    """Computed numbers along an axis: negative ones count from the end, none leaves it."""
    whole = elementwise("Cast", index, dtype=WHOLE)
    return Tree("Wrap", (whole, scalar(length, WHOLE)), WHOLE, whole.shape)


def _inside(index: Array, length: int) -> Array:
    if index.size and not (-length <= index.min() and index.max() < length):
        raise Unsupported(f"the index {index.min()} … {index.max()} on an axis of {length}")
    return np.where(index < 0, index + length, index).astype(np.int64)


def _lookup(walk: Lowering, data: Value, place: Value) -> Value:
    """The elements of a stored value at computed places of its own order."""
    leaf = walk.stored(data, ordered=True)
    start = int(leaf.index.flat[0]) if leaf.index.size else 0
    if start:
        place = elementwise("Add", place, scalar(start, WHOLE))
    return Tree("Lookup", (place,), data.dtype, place.shape, leaf.buffer)


def _sum(*places: Value) -> Value:
    total = places[0]
    for each in places[1:]:
        total = elementwise("Add", total, each)
    return total


def _strides(shape: tuple[int, ...]) -> list[int]:
    return [int(np.prod(shape[axis + 1 :], dtype=np.int64)) for axis in range(len(shape))]


def _gather(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    data, index = needed(inputs, 0), needed(inputs, 1)
    axis = integer(node, "axis", 0)
    axis += len(data.shape) if axis < 0 else 0
    length = data.shape[axis]
    if index.known is not None:
        places = _inside(index.known, length)
        return [view(walk, data, lambda each: each.take(places, axis))]
    stride = _strides(data.shape)[axis]
    everything = np.arange(size(data)).reshape(data.shape)
    start = everything.take(0, axis)
    lined = start.reshape(*data.shape[:axis], *(1,) * len(index.shape), *data.shape[axis + 1 :])
    shape = (*data.shape[:axis], *index.shape, *data.shape[axis + 1 :])
    offset = iota(np.broadcast_to(lined, shape))
    tail = len(data.shape) - axis - 1
    chosen = view(
        walk, _wrapped(index, length), lambda each: each.reshape(*each.shape, *(1,) * tail)
    )
    moved_by = elementwise("Mul", chosen, scalar(stride, WHOLE))
    return [_lookup(walk, data, elementwise("Add", offset, moved_by))]


def _element_places(data: Value, index: Value, axis: int) -> Value:
    """Where GatherElements and ScatterElements find what an index names."""
    stride = _strides(data.shape)
    grid = np.indices(index.shape)
    fixed = sum(
        (grid[each] * stride[each] for each in range(len(data.shape)) if each != axis),
        np.zeros(index.shape, np.int64),
    )
    if index.known is not None:
        return const(fixed + _inside(index.known, data.shape[axis]) * stride[axis])
    chosen = elementwise("Mul", _wrapped(index, data.shape[axis]), scalar(stride[axis], WHOLE))
    return elementwise("Add", iota(fixed), chosen)


def _gather_elements(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    data, index = needed(inputs, 0), needed(inputs, 1)
    axis = integer(node, "axis", 0) % len(data.shape)
    places = _element_places(data, index, axis)
    if (known_places := places.known) is not None:
        return [view(walk, data, lambda each: each.reshape(-1)[known_places])]
    return [_lookup(walk, data, places)]


def _nd_places(walk: Lowering, data: Value, index: Value, batch: int = 0) -> Value:
    """Where GatherND and ScatterND find what the last axis of an index names, slices included."""
    depth = index.shape[-1]
    lead = index.shape[:-1]
    rest = data.shape[batch + depth :]
    stride = _strides(data.shape)
    inner = np.arange(int(np.prod(rest, dtype=np.int64))).reshape(rest)
    start = np.zeros(lead, np.int64)
    grid = np.indices(lead)
    for axis in range(batch):
        start += grid[axis] * stride[axis]
    fixed = start.reshape(*lead, *(1,) * len(rest)) + inner
    if index.known is not None:
        for place in range(depth):
            inside = _inside(index.known[..., place], data.shape[batch + place])
            fixed = fixed + (inside * stride[batch + place]).reshape(*lead, *(1,) * len(rest))
        return const(fixed)
    index = walk.stored(index)
    total: Value = iota(fixed)
    for place in range(depth):
        part = view(
            walk,
            taken(walk, index, ..., place),
            lambda each: each.reshape(*lead, *(1,) * len(rest)),
        )
        chosen = _wrapped(part, data.shape[batch + place])
        total = elementwise(
            "Add", total, elementwise("Mul", chosen, scalar(stride[batch + place], WHOLE))
        )
    return total


def _gather_nd(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    data, index = needed(inputs, 0), needed(inputs, 1)
    places = _nd_places(walk, data, index, integer(node, "batch_dims", 0))
    if (known_places := places.known) is not None:
        return [view(walk, data, lambda each: each.reshape(-1)[known_places])]
    return [_lookup(walk, data, places)]


def _scattered(
    walk: Lowering, node: Node, data: Value, places: Value, updates: Value
) -> list[Value]:
    how = text(node, "reduction", "none")
    if how not in ("none", "add", "mul", "max", "min"):
        raise Unsupported(f"reduction={how}")
    count = size(data)
    buffer = walk.work(data.dtype, count)
    everywhere = np.arange(count)
    if data.dtype != updates.dtype or (places.shape != updates.shape):
        raise Unsupported(f"updates {updates.dtype} {updates.shape} at {places.shape} places")
    walk.write(buffer, everywhere, data)
    if size(updates):
        if places.known is not None and how == "none":
            walk.write(buffer, places.known, updates)
        else:
            walk.scatter(buffer, places, updates, how)
    return [Leaf(buffer, everywhere.reshape(data.shape))]


def _scatter_elements(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    data, index, updates = (needed(inputs, place) for place in range(3))
    axis = integer(node, "axis", 0) % len(data.shape)
    return _scattered(walk, node, data, _element_places(data, index, axis), updates)


def _scatter_nd(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    data, index, updates = (needed(inputs, place) for place in range(3))
    return _scattered(walk, node, data, _nd_places(walk, data, index), updates)


def _one_hot(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    depth = int(known(inputs, 1, "a depth").item())
    values = walk.stored(needed(inputs, 2))
    index = elementwise("Cast", needed(inputs, 0), dtype=WHOLE)
    axis = integer(node, "axis", -1)
    axis = axis + len(index.shape) + 1 if axis < 0 else axis
    lined = view(walk, index, lambda each: np.expand_dims(each, axis))
    grid = np.arange(depth).reshape(depth, *(1,) * (len(index.shape) - axis))
    low = elementwise("Less", lined, scalar(0, WHOLE))
    stored = walk.stored(
        elementwise("Where", low, elementwise("Add", lined, scalar(depth, WHOLE)), lined)
    )
    lone = view(walk, values, lambda each: each.reshape(-1))
    off, on = (taken(walk, lone, place) for place in (0, 1))
    return [elementwise("Where", elementwise("Equal", stored, const(grid)), on, off)]


OPERATORS: dict[str, Lower] = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "OneHot": _one_hot,
}
