"""Operators over rows: sums, extremes, and what is made of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from functools import reduce as fold

import numpy as np

from roadworthy.spec.onnx_graph import Node
from roadworthy.targets.c.elementwise import add, div, elementwise, mul, sub
from roadworthy.targets.c.kernels import rows as kernels
from roadworthy.targets.c.lowering import Inputs, Lower, Lowering, Unsupported
from roadworthy.targets.c.operators.products import rounded
from roadworthy.targets.c.operators.reading import given, integer, listed, needed, number, numbers
from roadworthy.targets.c.operators.views import taken, view
from roadworthy.targets.c.values import Leaf, Value, nodes, scalar, size

# So few elements are joined two by two, without a kernel.
FEW = 8
_PAIRS = {"sum": "Add", "square": "Add", "product": "Mul", "max": "Max", "min": "Min"}


def reduced(walk: Lowering, x: Value, axes: Sequence[int], kind: str, *, keep: bool) -> Value:
    """Sum, sum of squares, product, greatest or least over some axes."""
    rank = len(x.shape)
    gone = sorted({axis % rank for axis in axes}) if rank else []
    stay = [axis for axis in range(rank) if axis not in gone]
    count = math.prod(x.shape[axis] for axis in gone)
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
            parts = [mul(each, each) for each in parts]
        return fold(partial(elementwise, _PAIRS[kind]), parts)
    matrix = view(walk, x, lambda each: each.transpose(*stay, *gone).reshape(-1, count))
    leaf, out = walk.stored(matrix, ordered=True), walk.room(x.dtype, shape)
    walk.add(kernels.reduce(leaf, out.buffer, kind))
    return out


def _axes(node: Node, inputs: Inputs, x: Value) -> list[int]:
    every = [] if integer(node, "noop_with_empty_axes", 0) else list(range(len(x.shape)))
    return listed(node, inputs, "axes") or every


def _reduce(
    kind: str,
    before: Callable[[Value], Value] | None,
    after: Callable[[Value, int], Value] | None,
    walk: Lowering, node: Node, inputs: Inputs,
) -> list[Value]:  # fmt: skip
    x = needed(inputs, 0)
    axes, keep = _axes(node, inputs, x), bool(integer(node, "keepdims", 1))
    if not axes and len(x.shape):
        return [x]
    count = math.prod(x.shape[axis] for axis in axes)
    y = reduced(walk, before(x) if before else x, axes, kind, keep=keep)
    return [after(y, count) if after else rounded(y)]


def _mean(value: Value, count: int) -> Value:
    return div(value, scalar(count, value.dtype))


def _log_sum_exp(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x = needed(inputs, 0)
    axes, keep = _axes(node, inputs, x), bool(integer(node, "keepdims", 1))
    largest = scalar(np.finfo(x.dtype).max, x.dtype)
    highest, total = _exponentials(walk, x, axes, within=largest)[1:]
    y = add(elementwise("Log", total), highest)
    return [y if keep else view(walk, y, lambda each: np.squeeze(each, tuple(axes)))]


def _exponentials(
    walk: Lowering, x: Value, axes: Sequence[int], within: Value | None = None
) -> tuple[Value, Value, Value]:
    """exp(x − greatest), the greatest, and the sum of the exponentials.

    `within` a limit the greatest is finite: that of infinities alone would give NaN.
    """
    x = walk.stored(x)
    highest = reduced(walk, x, axes, "max", keep=True)
    if within is not None:
        highest = elementwise("Min", highest, within)
        highest = elementwise("Max", highest, elementwise("Neg", within))
    highest = walk.stored(highest)
    powers = walk.stored(elementwise("Exp", sub(x, highest)))
    return powers, highest, walk.stored(reduced(walk, powers, axes, "sum", keep=True))


def _softmax(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x = walk.stored(needed(inputs, 0))
    powers, highest, total = _exponentials(walk, x, [integer(node, "axis", -1)])
    if node.op == "Softmax":
        return [div(powers, total)]
    return [sub(sub(x, highest), elementwise("Log", total))]


def _layer_norm(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x, scale, shift = needed(inputs, 0), needed(inputs, 1), given(inputs, 2)
    axes = list(range(integer(node, "axis", -1) % len(x.shape), len(x.shape)))
    y = normalized(walk, x, axes, number(node, "epsilon", 1e-5))
    return [mul(y, scale) if shift is None else add(mul(y, scale), shift)]


def normalized(walk: Lowering, x: Value, axes: Sequence[int], epsilon: float) -> Value:
    """The value with mean 0 and deviation 1 over some axes."""
    x = walk.stored(x)
    count = math.prod(x.shape[axis] for axis in axes)
    mean = _mean(reduced(walk, x, axes, "sum", keep=True), count)
    centred = walk.stored(sub(x, walk.stored(mean)))
    variance = _mean(reduced(walk, centred, axes, "square", keep=True), count)
    deviation = elementwise("Sqrt", add(variance, scalar(epsilon, x.dtype)))
    return div(centred, walk.stored(deviation))


def _group_norm(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x, scale, shift = (needed(inputs, place) for place in range(3))
    groups = integer(node, "num_groups", x.shape[1])
    split = (x.shape[0], groups, -1)
    lined = view(walk, x, lambda each: each.reshape(split))
    flat = normalized(walk, lined, [2], number(node, "epsilon", 1e-5))
    y = view(walk, flat, lambda each: each.reshape(x.shape))
    across = (-1, *(1,) * (len(x.shape) - 2))

    def by_channel(value: Value) -> Value:
        times = x.shape[1] // size(value)
        return view(walk, value, lambda each: np.repeat(each, times).reshape(across))

    return [add(mul(y, by_channel(scale)), by_channel(shift))]


def _rows(walk: Lowering, x: Value, axis: int, step: int = 1) -> tuple[Leaf, tuple[int, ...]]:
    """The value as rows along an axis, one behind the other, and the shape of all the rows."""
    lined = view(walk, x, lambda each: np.moveaxis(each, axis, -1)[..., ::step])
    matrix = view(walk, lined, lambda each: each.reshape(-1, each.shape[-1]))
    return walk.stored(matrix, ordered=True), lined.shape[:-1]


def _argmax(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x, axis = needed(inputs, 0), integer(node, "axis", 0)
    if integer(node, "select_last_index", 0):
        raise Unsupported("select_last_index=1")
    leaf, lead = _rows(walk, x, axis)
    out = walk.room("int64", lead)
    walk.add(kernels.argument(leaf, out.buffer, least=node.op == "ArgMin"))
    keep = integer(node, "keepdims", 1)
    return [view(walk, out, lambda each: np.expand_dims(each, axis)) if keep else out]


def _cumsum(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x, axis = needed(inputs, 0), (numbers(inputs, 1, "an axis") or [0])[0]
    if integer(node, "exclusive", 0):
        raise Unsupported("exclusive=1")
    step = -1 if integer(node, "reverse", 0) else 1
    leaf, lead = _rows(walk, x, axis, step)
    out = walk.room(x.dtype, (*lead, x.shape[axis]))
    walk.add(kernels.running_sum(leaf, out.buffer))
    return [view(walk, out, lambda each: np.moveaxis(each[..., ::step], -1, axis))]


def _top_k(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x, k = needed(inputs, 0), (numbers(inputs, 1, "a number of elements") or [1])[0]
    axis = integer(node, "axis", -1)
    if not 0 <= k <= x.shape[axis]:
        raise Unsupported(f"the {k} largest of {x.shape[axis]}")
    leaf, lead = _rows(walk, x, axis)
    outs = [walk.room(dtype, (*lead, k)) for dtype in (x.dtype, "int64")]
    least = not integer(node, "largest", 1)
    walk.add(kernels.largest(leaf, outs[0].buffer, outs[1].buffer, k, least=least))
    return [view(walk, out, lambda each: np.moveaxis(each, -1, axis)) for out in outs]


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
