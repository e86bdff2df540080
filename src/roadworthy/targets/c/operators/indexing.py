"""Operators that find elements by number: known numbers move, computed ones look up.

A number outside of its axis has no meaning in ONNX; here it takes the nearest that has one, so that
no input can make the C read or write past its buffers. Sizes that do not fit each other would, and
are refused: onnxruntime looks at them when a step comes there, and a branch may hide them from it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from roadworthy.spec.onnx_graph import Node
from roadworthy.spec.port import Array
from roadworthy.targets.c.elementwise import add, elementwise, mul
from roadworthy.targets.c.lowering import Inputs, Lower, Lowering, Unsupported
from roadworthy.targets.c.operators.reading import integer, known, needed, text
from roadworthy.targets.c.operators.views import taken, view
from roadworthy.targets.c.statements import Scatter
from roadworthy.targets.c.values import Tree, Value, const, iota, scalar, size

WHOLE = np.dtype(np.int64)


def _lookup(walk: Lowering, data: Value, place: Value) -> Value:
    """The elements of a value at places of its own order; known ones only move."""
    if (fixed := place.known) is not None:
        return view(walk, data, lambda each: each.reshape(-1)[fixed])
    leaf = walk.stored(data, ordered=True)
    start = int(leaf.index.flat[0]) if leaf.index.size else 0
    if start:
        place = add(place, scalar(start, WHOLE))
    return Tree("Lookup", (place,), data.dtype, place.shape, leaf.buffer)


def _places(start: Array, *chosen: tuple[Value, int, int]) -> Value:
    """`start` and, for each (index, length, stride), the index along an axis times its stride.

    Negative numbers count from the end. Computed ones never leave the axis.
    """
    if any(size(index) and not length for index, length, _ in chosen):
        raise Unsupported("an index on an axis of 0")
    if any(index.known is None for index, _, _ in chosen):
        total: Value = iota(start)
        for index, length, stride in chosen:
            whole = elementwise("Cast", index, dtype=WHOLE)
            inside = Tree("Wrap", (whole, scalar(length, WHOLE)), WHOLE, whole.shape)
            total = add(total, mul(inside, scalar(stride, WHOLE)))
        return total
    for index, length, stride in chosen:
        known = np.asarray(index.known)
        if known.size and not (-length <= known.min() and known.max() < length):
            raise Unsupported(f"the index {known.min()} … {known.max()} on an axis of {length}")
        start = start + np.where(known < 0, known + length, known).astype(np.int64) * stride
    return const(start)


def _unfit(index: Value, data: Value) -> Unsupported:
    return Unsupported(f"an index of shape {index.shape} into {data.shape}")


def _strides(shape: tuple[int, ...]) -> list[int]:
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _grid(shape: Sequence[int], strides: Sequence[int]) -> Array:
    """Where each element of a shape lies, at such strides along its first axes."""
    moves = (grid * stride for grid, stride in zip(np.indices(shape), strides, strict=False))
    return sum(moves, np.zeros(shape, np.int64))


def _gather(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    data, index = needed(inputs, 0), needed(inputs, 1)
    axis = integer(node, "axis", 0) % len(data.shape)
    before, after = data.shape[:axis], data.shape[axis + 1 :]
    stride = _strides(data.shape)
    others = _grid((*before, *after), (*stride[:axis], *stride[axis + 1 :]))
    lined = others.reshape((*before, *(1,) * len(index.shape), *after))
    start = np.broadcast_to(lined, (*before, *index.shape, *after))
    chosen = view(walk, index, lambda each: each.reshape((*each.shape, *(1,) * len(after))))
    return [_lookup(walk, data, _places(start, (chosen, data.shape[axis], stride[axis])))]


def _element_places(node: Node, data: Value, index: Value) -> Value:
    """Where GatherElements and ScatterElements find what an index names."""
    axis, stride = integer(node, "axis", 0) % len(data.shape), _strides(data.shape)
    sides = [*zip(index.shape, data.shape, strict=False)]
    del sides[axis : axis + 1]
    if len(index.shape) != len(data.shape) or any(more > length for more, length in sides):
        raise _unfit(index, data)
    others = [0 if each == axis else stride[each] for each in range(len(stride))]
    return _places(_grid(index.shape, others), (index, data.shape[axis], stride[axis]))


def _gather_elements(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    data, index = needed(inputs, 0), needed(inputs, 1)
    return [_lookup(walk, data, _element_places(node, data, index))]


def _nd_places(walk: Lowering, data: Value, index: Value, batch: int = 0) -> Value:
    """Where GatherND and ScatterND find what the last axis of an index names, slices included."""
    *lead, depth = index.shape
    fits = 0 <= batch <= len(lead) and batch + depth <= len(data.shape)
    if not fits or tuple(lead[:batch]) != data.shape[:batch]:
        raise _unfit(index, data)
    rest, stride = data.shape[batch + depth :], _strides(data.shape)
    lined = (*lead, *(1,) * len(rest))
    start = _grid(lead, stride[:batch]).reshape(lined) + np.arange(math.prod(rest)).reshape(rest)
    index = walk.stored(index)
    chosen = [
        (
            view(walk, taken(walk, index, ..., place), lambda each: each.reshape(lined)),
            data.shape[batch + place],
            stride[batch + place],
        )
        for place in range(depth)
    ]
    return _places(start, *chosen)


def _gather_nd(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    data, index = needed(inputs, 0), needed(inputs, 1)
    places = _nd_places(walk, data, index, integer(node, "batch_dims", 0))
    return [_lookup(walk, data, places)]


def _scattered(
    walk: Lowering, node: Node, data: Value, places: Value, updates: Value
) -> list[Value]:
    how = text(node, "reduction", "none")
    if how not in ("none", "add", "mul", "max", "min"):
        raise Unsupported(f"reduction={how}")
    if data.dtype != updates.dtype or (places.shape != updates.shape):
        raise Unsupported(f"updates {updates.dtype} {updates.shape} at {places.shape} places")
    made = walk.room(data.dtype, data.shape)
    walk.write(made.buffer, made.index, data)
    if places.known is not None and how == "none":
        walk.write(made.buffer, places.known, updates)
    elif size(updates):
        walk.add(Scatter(target=made.buffer, place=places, value=updates, how=how))
    return [made]


def _scatter_elements(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    data, index, updates = (needed(inputs, place) for place in range(3))
    return _scattered(walk, node, data, _element_places(node, data, index), updates)


def _scatter_nd(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    data, index, updates = (needed(inputs, place) for place in range(3))
    return _scattered(walk, node, data, _nd_places(walk, data, index), updates)


def _one_hot(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    depth = int(known(inputs, 1, "a depth").item())
    values = walk.stored(needed(inputs, 2))
    index = elementwise("Cast", needed(inputs, 0), dtype=WHOLE)
    axis = integer(node, "axis", -1) % (len(index.shape) + 1)
    lined = view(walk, index, lambda each: np.expand_dims(each, axis))
    grid = np.arange(depth).reshape(depth, *(1,) * (len(index.shape) - axis))
    low = elementwise("Less", lined, scalar(0, WHOLE))
    stored = walk.stored(elementwise("Where", low, add(lined, scalar(depth, WHOLE)), lined))
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
