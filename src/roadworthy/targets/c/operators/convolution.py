"""Convolutions and pools: windows over an image, with the channels side by side in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from roadworthy.spec.onnx_graph import Node
from roadworthy.spec.port import Array
from roadworthy.targets.c.elementwise import elementwise
from roadworthy.targets.c.kernels import dense
from roadworthy.targets.c.lowering import Lower, Lowering, Result, Unsupported
from roadworthy.targets.c.operators.products import multiplied, product
from roadworthy.targets.c.operators.reading import given, integer, integers, known, needed, text
from roadworthy.targets.c.operators.reductions import reduced
from roadworthy.targets.c.operators.views import joined, padded, view
from roadworthy.targets.c.values import Leaf, Value, const, scalar

Inputs = Sequence[Result | None]


def _geometry(
    node: Node, x: Value, kernel: Sequence[int]
) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """Strides, dilations and borders of a window, axis by axis."""
    axes = len(kernel)
    strides = integers(node, "strides", [1] * axes)
    dilations = integers(node, "dilations", [1] * axes)
    pads = integers(node, "pads", [0] * 2 * axes)
    if min(*strides, *dilations, *kernel) < 1:
        raise Unsupported(f"a window of {[*kernel]}, strides {strides}, dilations {dilations}")
    mode = text(node, "auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        sides = []
        for length, k, stride, dilation in zip(
            x.shape[2:], kernel, strides, dilations, strict=True
        ):
            whole = max((-(-length // stride) - 1) * stride + (k - 1) * dilation + 1 - length, 0)
            less, more = whole // 2, whole - whole // 2
            sides.append((less, more) if mode == "SAME_UPPER" else (more, less))
        return strides, dilations, sides
    return strides, dilations, list(zip(pads[:axes], pads[axes:], strict=True))


def _windows(
    shape: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[Array]:
    """For each axis, the places (outputs, kernel) that a window covers."""
    found = []
    for length, k, stride, dilation in zip(shape, kernel, strides, dilations, strict=True):
        outputs = (length - (k - 1) * dilation - 1) // stride + 1
        if outputs < 1:
            raise Unsupported(f"a window of {k} over {length}")
        found.append(np.arange(outputs)[:, None] * stride + np.arange(k) * dilation)
    return found


def _conv(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x, weights = needed(inputs, 0), known(inputs, 1, "weights")
    bias = known(inputs, 2, "a bias") if given(inputs, 2) is not None else None
    if len(x.shape) not in (3, 4):
        raise Unsupported(f"an image of shape {x.shape}")
    if len(x.shape) == 3:  # one axis: an image of one line
        lines = [_line(node)]
        x = view(walk, x, lambda each: each[:, :, None])
        y = _images(walk, lines[0], x, weights[:, :, None], bias)
        return [view(walk, y, lambda each: each[:, :, 0])]
    return [_images(walk, node, x, weights, bias)]


def _line(node: Node) -> Node:
    """The node of one axis as one of two."""
    attributes = dict(node.attributes)
    for name, extra in (("strides", (1,)), ("dilations", (1,))):
        if name in attributes:
            attributes[name] = (*extra, *integers(node, name, []))
    if "pads" in attributes:
        first, last = integers(node, "pads", [])
        attributes["pads"] = (0, first, 0, last)
    return replace(node, attributes=attributes)


def _images(walk: Lowering, node: Node, x: Value, weights: Array, bias: Array | None) -> Value:
    strides, dilations, sides = _geometry(node, x, weights.shape[2:])
    x = padded(walk, x, [(0, 0), (0, 0), *sides], scalar(0, x.dtype))
    groups = integer(node, "group", 1)
    if groups < 1 or weights.shape[0] % groups or x.shape[1] != groups * weights.shape[1]:
        raise Unsupported(f"{x.shape[1]} channels for filters {weights.shape} in {groups} groups")
    inside, outside = x.shape[1] // groups, weights.shape[0] // groups
    images = []
    # Channels last, in one buffer: a window's line is then one run of memory.
    lined = walk.stored(view(walk, x, lambda each: each.transpose(0, 2, 3, 1)), ordered=groups == 1)
    for image in range(x.shape[0]):
        parts = []
        for group in range(groups):
            channels = slice(group * inside, (group + 1) * inside)
            chosen = slice(group * outside, (group + 1) * outside)
            own = Leaf(lined.buffer, lined.index[image][:, :, channels])
            part_bias = None if bias is None else bias[chosen]
            parts.append(_convolved(walk, own, weights[chosen], part_bias, strides, dilations))
        images.append(
            view(walk, joined(walk, parts, -1), lambda each: each.transpose(2, 0, 1)[None])
        )
    return joined(walk, images, 0)


def _convolved(
    walk: Lowering,
    x: Leaf,
    weights: Array,
    bias: Array | None,
    strides: list[int],
    dilations: list[int],
) -> Value:
    """One image (height, width, channels) and its filters → (height, width, filters)."""
    tall, wide = _windows(x.shape[:2], weights.shape[2:], strides, dilations)
    filters = weights.transpose(2, 3, 1, 0)
    n = filters.shape[3]
    columns = filters.reshape(-1, n)
    whole_lines = dilations[1] == 1 and (np.diff(x.index.ravel()) == 1).all()
    if not whole_lines:
        # Every window gathered: any layout will do.
        index = x.index[tall[:, None, :, None], wide[None, :, None, :]]
        matrix = Leaf(x.buffer, index.reshape(len(tall) * len(wide), -1))
        y = product(walk, matrix, const(columns), bias)
        return view(walk, walk.stored(y), lambda each: each.reshape(len(tall), len(wide), n))
    line = x.shape[1] * x.shape[2]
    shape = dense.Shape(
        rows=len(wide), n=n, runs=weights.shape[2], run=weights.shape[3] * x.shape[2],
        row_stride=strides[1] * x.shape[2], run_stride=line * dilations[0],
        start=int(x.index.flat[0]), lines=len(tall), line_stride=strides[0] * line,
    )  # fmt: skip
    index = np.arange(shape.lines * shape.rows)[:, None] * dense.out_stride(shape) + np.arange(n)
    placed = index.reshape(len(tall), len(wide), n)
    return multiplied(walk, x.buffer, columns, bias, shape, placed)


def _conv_transpose(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    """A convolution of the input with zeros between its elements, each filter turned around."""
    x, weights = needed(inputs, 0), known(inputs, 1, "weights")
    axes, groups = len(x.shape) - 2, integer(node, "group", 1)
    strides, dilations, pads = _geometry(node, x, weights.shape[2:])
    more = integers(node, "output_padding", [0] * axes)
    if text(node, "auto_pad", "NOTSET") != "NOTSET":
        raise Unsupported(f"auto_pad={node.attributes['auto_pad']}")
    apart = [(size - 1) * stride + 1 for size, stride in zip(x.shape[2:], strides, strict=True)]
    zero, made = scalar(0, x.dtype), walk.room(x.dtype, (*x.shape[:2], *apart))
    walk.write(made.buffer, made.index, view(walk, zero, lambda e: np.broadcast_to(e, made.shape)))
    between = tuple(slice(None, None, stride) for stride in (1, 1, *strides))
    walk.write(made.buffer, made.index[between], x)
    reach = [(k - 1) * dilation for k, dilation in zip(weights.shape[2:], dilations, strict=True)]
    sides = [
        (far - first, far - last + extra)
        for far, (first, last), extra in zip(reach, pads, more, strict=True)
    ]
    # (in, out of a group, …) becomes (out, in of a group, …).
    filters = weights.reshape(groups, -1, *weights.shape[1:]).swapaxes(1, 2)
    turned = np.flip(filters.reshape(-1, *filters.shape[2:]), tuple(range(2, 2 + axes)))
    plain = replace(node, op="Conv", attributes={"dilations": tuple(dilations), "group": groups})
    spread = padded(walk, made, [(0, 0), (0, 0), *sides], zero)
    return _conv(walk, plain, [spread, const(turned), *inputs[2:]])


def _pool(kind: str, walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x = needed(inputs, 0)
    kernel = integers(node, "kernel_shape", [])
    strides, dilations, sides = _geometry(node, x, kernel)
    if integer(node, "ceil_mode", 0) or len(node.outputs) > 1:
        raise Unsupported("ceil_mode=1, or the places of the greatest")
    mean = kind == "mean"
    whole = integer(node, "count_include_pad", 0)
    if mean and any(a or b for a, b in sides) and not whole:
        raise Unsupported("count_include_pad=0 with a border")
    lowest = -np.inf if x.dtype.kind == "f" else int(np.iinfo(x.dtype).min)
    outside = 0.0 if mean else lowest
    x = walk.stored(padded(walk, x, [(0, 0), (0, 0), *sides], scalar(outside, x.dtype)))
    index = x.index
    for axis, windows in enumerate(_windows(x.shape[2:], kernel, strides, dilations)):
        index = index.take(windows, axis=2 + axis)
        index = np.moveaxis(index, 3 + axis, -1)
    covered = Leaf(x.buffer, index)
    last = list(range(-len(kernel), 0))
    y = reduced(walk, covered, last, "sum" if mean else "max", keep=False)
    return [elementwise("Div", y, scalar(int(np.prod(kernel)), y.dtype)) if mean else y]


def _global_pool(kind: str, walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x = needed(inputs, 0)
    y = reduced(
        walk, x, list(range(2, len(x.shape))), "sum" if kind == "mean" else "max", keep=True
    )
    count = int(np.prod(x.shape[2:], dtype=np.int64))
    return [elementwise("Div", y, scalar(count, y.dtype)) if kind == "mean" else y]


OPERATORS: dict[str, Lower] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "MaxPool": partial(_pool, "max"),
    "AveragePool": partial(_pool, "mean"),
    "GlobalAveragePool": partial(_global_pool, "mean"),
    "GlobalMaxPool": partial(_global_pool, "max"),
}
