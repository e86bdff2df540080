"""Operators that only move elements: operations of NumPy on where the elements lie."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import EllipsisType

import numpy as np

from roadworthy.spec.onnx_graph import DTYPES, Node
from roadworthy.spec.port import Array
from roadworthy.targets.c.elementwise import elementwise
from roadworthy.targets.c.lowering import Inputs, Lower, Lowering, Unsupported
from roadworthy.targets.c.operators.reading import (
    every,
    given,
    integer,
    integers,
    known,
    listed,
    needed,
    numbers,
    text,
)
from roadworthy.targets.c.values import Leaf, Tree, Value, const, moved, size

Shape = tuple[int, ...]
Move = Callable[[Array], Array]
# What NumPy takes between brackets.
Index = Array | slice | int | EllipsisType | None


def view(walk: Lowering, value: Value, move: Move) -> Value:
    """The value moved; a tree whose elements would be computed again is written out first."""
    if isinstance(value, Tree) and move(np.broadcast_to(0, value.shape)).size > size(value):
        value = walk.stored(value)
    return moved(value, move)


def taken(walk: Lowering, value: Value, *index: Index) -> Value:
    """`value[index]`."""
    return view(walk, value, lambda each: np.asarray(each[index]))


def moving(find: Callable[[Node, Inputs, Shape], Move]) -> Lower:
    """An operator that moves the elements of its first input, as its node and that shape say."""

    def lower(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
        x = needed(inputs, 0)
        return [view(walk, x, find(node, inputs, x.shape))]

    return lower


def _reshape(node: Node, inputs: Inputs, old: Shape) -> Move:
    shape = known(inputs, 1, "a shape").tolist()
    if not integer(node, "allowzero", 0):
        shape = [old[axis] if each == 0 else each for axis, each in enumerate(shape)]
    return lambda index: index.reshape(shape)


def _flatten(node: Node, inputs: Inputs, old: Shape) -> Move:
    rows = math.prod(old[: integer(node, "axis", 1)])
    return lambda index: index.reshape(rows, -1)


def _transpose(node: Node, inputs: Inputs, old: Shape) -> Move:
    order = integers(node, "perm", [*range(len(old))][::-1])
    return lambda index: index.transpose(order)


def _squeeze(node: Node, inputs: Inputs, old: Shape) -> Move:
    axes = listed(node, inputs, "axes")
    return lambda index: np.squeeze(index, None if axes is None else tuple(axes))


def _unsqueeze(node: Node, inputs: Inputs, old: Shape) -> Move:
    axes = listed(node, inputs, "axes") or []
    return lambda index: np.expand_dims(index, axes)


def _expand(node: Node, inputs: Inputs, old: Shape) -> Move:
    shape = np.broadcast_shapes(old, tuple(known(inputs, 1, "a shape").tolist()))
    return lambda index: np.broadcast_to(index, shape)


def _tile(node: Node, inputs: Inputs, old: Shape) -> Move:
    times = known(inputs, 1, "repeats").tolist()
    return lambda index: np.tile(index, times)


def _depth_to_space(node: Node, inputs: Inputs, old: Shape) -> Move:
    """Channels become places of a block; `SpaceToDepth` is the way back."""
    rows, channels, high, wide = old
    block = integer(node, "blocksize", 1)
    depth_first = text(node, "mode", "DCR") == "DCR"
    if node.op == "SpaceToDepth":
        split = (rows, channels, high // block, block, wide // block, block)
        order = (0, 3, 5, 1, 2, 4) if depth_first else (0, 1, 3, 5, 2, 4)
        made = (rows, channels * block * block, high // block, wide // block)
        return lambda index: index.reshape(split).transpose(order).reshape(made)
    made = (rows, channels // block**2, high * block, wide * block)
    if depth_first:
        split, order = (rows, block, block, made[1], high, wide), (0, 3, 4, 1, 5, 2)
    else:
        split, order = (rows, made[1], block, block, high, wide), (0, 1, 4, 2, 5, 3)
    return lambda index: index.reshape(split).transpose(order).reshape(made)


def _slice(node: Node, inputs: Inputs, old: Shape) -> Move:
    starts, ends = (known(inputs, place, "a slice").ravel().tolist() for place in (1, 2))
    axes = numbers(inputs, 3, "axes") or range(len(starts))
    steps = numbers(inputs, 4, "a step") or [1] * len(starts)
    taken = [slice(None)] * len(old)
    for axis, *ends_and_step in zip(axes, starts, ends, steps, strict=True):
        taken[axis] = slice(*ends_and_step)
    return lambda index: index[tuple(taken)]


def _split(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x, sizes = needed(inputs, 0), listed(node, inputs, "split")
    axis = integer(node, "axis", 0)
    if sizes is None:
        parts = integer(node, "num_outputs", len(node.outputs))
        each = -(-x.shape[axis] // parts)
        sizes = [each] * (parts - 1) + [x.shape[axis] - each * (parts - 1)]
    ends = np.cumsum(sizes)
    if isinstance(x, Tree):
        x = walk.stored(x)  # each part would evaluate what it shares with the others
    return [
        taken(walk, x, *(slice(None),) * (axis % len(x.shape)), slice(end - length, end))
        for end, length in zip(ends.tolist(), sizes, strict=True)
    ]


def joined(walk: Lowering, parts: Sequence[Value], axis: int) -> Value:
    """The parts side by side, in a buffer of their own."""
    parts = [each for each in parts if size(each)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    known_parts = [each.known for each in parts]
    if all(each is not None for each in known_parts):
        return const(np.concatenate(known_parts, axis))  # type: ignore[arg-type]
    first = parts[0]
    if isinstance(first, Leaf) and all(
        isinstance(each, Leaf) and each.buffer is first.buffer for each in parts
    ):
        return Leaf(first.buffer, np.concatenate([each.index for each in parts], axis))  # type: ignore[union-attr]
    ends = np.cumsum([each.shape[axis] for each in parts])
    shape = list(first.shape)
    shape[axis] = int(ends[-1])
    made = walk.room(first.dtype, shape)
    for each, places in zip(parts, np.split(made.index, ends[:-1], axis), strict=True):
        walk.write(made.buffer, places, each)
    return made


def _concat(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    return [joined(walk, every(inputs), integer(node, "axis", 0))]


def padded(walk: Lowering, x: Value, widths: Sequence[tuple[int, int]], fill: Value) -> Value:
    """The value inside a border of one number; negative widths cut."""
    cut = tuple(
        slice(max(-a, 0), size_ - max(-b, 0)) for (a, b), size_ in zip(widths, x.shape, strict=True)
    )
    x = view(walk, x, lambda index: index[cut])
    widths = [(max(a, 0), max(b, 0)) for a, b in widths]
    if not any(a or b for a, b in widths):
        return x
    shape = [a + each + b for (a, b), each in zip(widths, x.shape, strict=True)]
    inside = tuple(slice(a, a + each) for (a, _), each in zip(widths, x.shape, strict=True))
    made = walk.room(x.dtype, shape)
    border = moved(fill, lambda index: np.broadcast_to(index.reshape(()), shape))
    walk.write(made.buffer, made.index, border)
    walk.write(made.buffer, made.index[inside], x)
    return made


def _pad(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x, pads = needed(inputs, 0), known(inputs, 1, "a border").ravel().tolist()
    axes = numbers(inputs, 3, "axes") or list(range(len(x.shape)))
    widths = [(0, 0)] * len(x.shape)
    for place, axis in enumerate(axes):
        widths[axis] = (pads[place], pads[place + len(axes)])
    mode = text(node, "mode", "constant")
    if mode in ("edge", "reflect", "wrap"):
        # What is cut off is seen by a reflection all the same.
        more = [(max(before, 0), max(after, 0)) for before, after in widths]
        sizes = [sum(each) for each in zip(x.shape, *zip(*more, strict=True), strict=True)]
        kept = tuple(
            slice(max(-before, 0), size_ - max(-after, 0))
            for (before, after), size_ in zip(widths, sizes, strict=True)
        )
        return [view(walk, x, lambda index: np.pad(index, more, mode=mode)[kept])]  # type: ignore[call-overload]
    if mode != "constant":
        raise Unsupported(f"mode={mode}")
    fill = given(inputs, 2)
    return [padded(walk, x, widths, const(np.zeros((), x.dtype)) if fill is None else fill)]


def _identity(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    return [needed(inputs, 0)]


def _dropout(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    if given(inputs, 2) is not None and known(inputs, 2, "a mode").any():
        raise Unsupported("training_mode=1")
    return [needed(inputs, 0)]


def _shape(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    shape = needed(inputs, 0).shape
    if node.op == "Size":
        return [const(np.asarray(math.prod(shape)))]
    end = node.attributes.get("end")
    chosen = shape[integer(node, "start", 0) : end if isinstance(end, int) else None]
    return [const(np.asarray(chosen, dtype=np.int64))]


def _filled(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    shape = known(inputs, 0, "a shape").tolist()
    value = node.attributes.get("value")
    array = value if isinstance(value, np.ndarray) else np.zeros(1, np.float32)
    walk.work(array.dtype, math.prod(shape))  # refuses what is larger than any policy
    return [const(np.broadcast_to(array.reshape(()), shape))]


def _constant(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    for name, value in node.attributes.items():
        if isinstance(value, np.ndarray):
            return [const(value)]
        if name.startswith("value_"):
            dtype = np.float32 if "float" in name else np.int64
            return [const(np.asarray(value, dtype=dtype))]
    raise Unsupported("a constant without a number")


def _range(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    start, limit, delta = (known(inputs, place, "a range") for place in range(3))
    return [const(np.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype))]


def _eye_like(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x = needed(inputs, 0)
    dtype = DTYPES.get(integer(node, "dtype", 0), x.dtype)
    return [const(np.eye(x.shape[0], x.shape[1], k=integer(node, "k", 0)).astype(dtype))]


def _trilu(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x = needed(inputs, 0)
    k = int(known(inputs, 1, "a diagonal").item()) if given(inputs, 1) is not None else 0
    keep = np.triu if integer(node, "upper", 1) else np.tril
    mask = keep(np.ones(x.shape[-2:], bool), k)
    return [elementwise("Where", const(mask), x, const(np.zeros((), x.dtype)))]


OPERATORS: dict[str, Lower] = {
    "Reshape": moving(_reshape), "Flatten": moving(_flatten), "Transpose": moving(_transpose),
    "Squeeze": moving(_squeeze), "Unsqueeze": moving(_unsqueeze), "Expand": moving(_expand),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), moving(_depth_to_space)),
    "Tile": moving(_tile), "Slice": moving(_slice), "Split": _split, "Concat": _concat,
    "Pad": _pad, "Identity": _identity, "Dropout": _dropout, "Shape": _shape, "Size": _shape,
    "ConstantOfShape": _filled, "Constant": _constant, "Range": _range, "EyeLike": _eye_like,
    "Trilu": _trilu,
}  # fmt: skip
