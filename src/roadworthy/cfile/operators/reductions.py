"""Operators over rows: sums, extremes, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from functools import reduce as fold

import numpy as np

from roadworthy.cfile.elementwise import elementwise
from roadworthy.cfile.graph import Node
from roadworthy.cfile.kernels import rows as kernels
from roadworthy.cfile.lowering import Lower, Lowering, Result, Unsupported
from roadworthy.cfile.operators.products import rounded
from roadworthy.cfile.operators.reading import given, integer, needed, number, numbers
from roadworthy.cfile.operators.views import taken, view
from roadworthy.cfile.values import Leaf, Value, nodes, scalar, size

Inputs = Sequence[Result | None]
# So few elements are joined two by two, without a kernel.
FEW = 8
_PAIRS = {"sum": "Add", "square": "Add", "product": "Mul", "max": "Max", "min": "Min"}


def reduced(walk: Lowering, x: Value, axes: Sequence[int], kind: str, *, keep: bool) -> Value:
    """Sum, sum of squares, product, greatest or least over some axes."""
    rank = len(x.shape)
    gone = sorted({axis % rank for axis in axes}) if rank else []
    stay = [axis for axis in range(rank) if axis not in gone]
    count = int(np.prod([x.shape[axis] for axis in gone], dtype=np.int64))
    if not count:
        raise Unsupported("a sum over nothing")
    shape = tuple(
        1 if axis in gone else x.shape[axis] for axis in range(rank) if keep or axis not in gone
    )
    if count <= FEW and x.dtype != np.float16:
        # A tree: what a later slice leaves out is then never computed.
        x = x if nodes(x) <= 1 else walk.stored(x)
        lined = view(walk, x, lambda each: each.transpose(*gone, *stay).reshape(count, *shape))
        parts = [taken(walk, lined, place) for place in range(count)]
        if kind == "square":
            parts = [elementwise("Mul", each, each) for each in parts]
        return fold(partial(elementwise, _PAIRS[kind]), parts)
    matrix = view(walk, x, lambda each: each.transpose(*stay, *gone).reshape(-1, count))
    leaf = walk.stored(matrix, ordered=True)
    out = walk.work(x.dtype, matrix.shape[0])
    walk.add(kernels.reduce(leaf, out, kind))
    return Leaf(out, np.arange(matrix.shape[0]).reshape(shape))


def _axes(node: Node, inputs: Inputs, x: Value) -> list[int]:
    axes = numbers(inputs, 1, "axes")
    if axes:
        return axes
    return [] if integer(node, "noop_with_empty_axes", 0) else list(range(len(x.shape)))


def _reduce(
    kind: str,
    before: Callable[[Value], Value] | None,
    after: Callable[[Value, int], Value] | None,
    walk: Lowering, node: Node, inputs: Inputs,
) -> list[Value]:  # fmt: skip
    x = needed(inputs, 0)
    axes = _axes(node, inputs, x)
    if not axes and len(x.shape):
        return [x]
    count = int(np.prod([x.shape[axis] for axis in axes], dtype=np.int64))
    given_x = before(x) if before else x
    y: Value = reduced(walk, given_x, axes, kind, keep=bool(integer(node, "keepdims", 1)))
    return [after(y, count) if after else rounded(y)]


def _mean(value: Value, count: int) -> Value:
    return elementwise("Div", value, scalar(count, value.dtype))


def _log_sum_exp(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x = needed(inputs, 0)
    axes, keep = _axes(node, inputs, x), bool(integer(node, "keepdims", 1))
    highest, total = _exponentials(walk, x, axes)[1:]
    y = elementwise("Add", elementwise("Log", total), highest)
    if keep:
        return [y]
    return [view(walk, y, lambda each: np.squeeze(each, tuple(axes)))]


def _exponentials(walk: Lowering, x: Value, axes: Sequence[int]) -> tuple[Value, Value, Value]:
    """exp(x − greatest), the greatest, and the sum of the exponentials."""
    x = walk.stored(x)
    highest = walk.stored(reduced(walk, x, axes, "max", keep=True))
    powers = walk.stored(elementwise("Exp", elementwise("Sub", x, highest)))
    return powers, highest, walk.stored(reduced(walk, powers, axes, "sum", keep=True))


def _softmax(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x = walk.stored(needed(inputs, 0))
    powers, highest, total = _exponentials(walk, x, [integer(node, "axis", -1)])
    if node.op == "Softmax":
        return [elementwise("Div", powers, total)]
    return [elementwise("Sub", elementwise("Sub", x, highest), elementwise("Log", total))]


def _layer_norm(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x, scale, shift = needed(inputs, 0), needed(inputs, 1), given(inputs, 2)
    axes = list(range(integer(node, "axis", -1) % len(x.shape), len(x.shape)))
    y = normalized(walk, x, axes, number(node, "epsilon", 1e-5))
    y = elementwise("Mul", y, scale)
    return [y if shift is None else elementwise("Add", y, shift)]


def normalized(walk: Lowering, x: Value, axes: Sequence[int], epsilon: float) -> Value:
    """The value with mean 0 and deviation 1 over some axes."""
    x = walk.stored(x)
    count = int(np.prod([x.shape[axis] for axis in axes], dtype=np.int64))
    mean = _mean(reduced(walk, x, axes, "sum", keep=True), count)
    centred = walk.stored(elementwise("Sub", x, walk.stored(mean)))
    variance = _mean(reduced(walk, centred, axes, "square", keep=True), count)
    deviation = elementwise("Sqrt", elementwise("Add", variance, scalar(epsilon, x.dtype)))
    return elementwise("Div", centred, walk.stored(deviation))


def _group_norm(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x, scale, shift = (needed(inputs, place) for place in range(3))
    groups = integer(node, "num_groups", x.shape[1])
    split = (x.shape[0], groups, -1)
    flat = normalized(
        walk, view(walk, x, lambda each: each.reshape(split)), [2], number(node, "epsilon", 1e-5)
    )
    y = view(walk, flat, lambda each: each.reshape(x.shape))
    across = (-1, *(1,) * (len(x.shape) - 2))

    def by_channel(value: Value) -> Value:
        times = x.shape[1] // size(value)
        return view(walk, value, lambda each: np.repeat(each, times).reshape(across))

    return [elementwise("Add", elementwise("Mul", y, by_channel(scale)), by_channel(shift))]


def _argmax(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x = needed(inputs, 0)
    axis = integer(node, "axis", 0) % len(x.shape)
    if integer(node, "select_last_index", 0):
        raise Unsupported("select_last_index=1")
    lined = view(walk, x, lambda each: np.moveaxis(each, axis, -1).reshape(-1, x.shape[axis]))
    leaf = walk.stored(lined, ordered=True)
    out = walk.work("int64", lined.shape[0])
    walk.add(kernels.argument(leaf, out, least=node.op == "ArgMin"))
    keep = bool(integer(node, "keepdims", 1))
    shape = tuple(1 if a == axis else s for a, s in enumerate(x.shape) if keep or a != axis)
    return [Leaf(out, np.arange(lined.shape[0]).reshape(shape))]


def _cumsum(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x, axis = needed(inputs, 0), (numbers(inputs, 1, "an axis") or [0])[0]
    if integer(node, "exclusive", 0):
        raise Unsupported("exclusive=1")
    flip = slice(None, None, -1 if integer(node, "reverse", 0) else 1)
    lined = view(walk, x, lambda each: np.moveaxis(each, axis, -1)[..., flip])
    leaf = walk.stored(
        view(walk, lined, lambda each: each.reshape(-1, each.shape[-1])), ordered=True
    )
    out = walk.work(x.dtype, size(x))
    walk.add(kernels.running_sum(leaf, out))
    y = Leaf(out, np.arange(size(x)).reshape(lined.shape))
    return [view(walk, y, lambda each: np.moveaxis(each[..., flip], -1, axis))]


def _top_k(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x, k = needed(inputs, 0), (numbers(inputs, 1, "a number of elements") or [1])[0]
    axis = integer(node, "axis", -1) % len(x.shape)
    lined = view(walk, x, lambda each: np.moveaxis(each, axis, -1))
    leaf = walk.stored(
        view(walk, lined, lambda each: each.reshape(-1, each.shape[-1])), ordered=True
    )
    shape = (*lined.shape[:-1], k)
    count = int(np.prod(shape, dtype=np.int64))
    values, places = walk.work(x.dtype, count), walk.work("int64", count)
    walk.add(kernels.largest(leaf, values, places, k, least=not integer(node, "largest", 1)))
    index = np.moveaxis(np.arange(count).reshape(shape), -1, axis)
    return [Leaf(values, index), Leaf(places, index)]


OPERATORS: dict[str, Lower] = {
    "ReduceSum": partial(_reduce, "sum", None, None),
    "ReduceMean": partial(_reduce, "sum", None, _mean),
    "ReduceMax": partial(_reduce, "max", None, None),
    "ReduceMin": partial(_reduce, "min", None, None),
    "ReduceProd": partial(_reduce, "product", None, None),
    "ReduceSumSquare": partial(_reduce, "square", None, None),
    "ReduceL1": partial(_reduce, "sum", lambda x: elementwise("Abs", x), None),
    "ReduceL2": partial(_reduce, "square", None, lambda y, _: elementwise("Sqrt", y)),
    "ReduceLogSumExp": _log_sum_exp,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "LayerNormalization": _layer_norm,
    "GroupNormalization": _group_norm,
    "InstanceNormalization": _group_norm,
    "ArgMax": _argmax,
    "ArgMin": _argmax,
    "CumSum": _cumsum,
    "TopK": _top_k,
}
