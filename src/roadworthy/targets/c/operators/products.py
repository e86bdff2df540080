"""Products of matrices: all of them are the kernel `dense` over weights in panels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from roadworthy.spec.onnx_graph import Node
from roadworthy.spec.port import Array
from roadworthy.targets.c.elementwise import elementwise
from roadworthy.targets.c.kernels import dense, panels
from roadworthy.targets.c.lowering import Lower, Lowering, Result, Unsupported
from roadworthy.targets.c.operators.reading import given, integer, needed, number, text
from roadworthy.targets.c.operators.views import joined, taken, view
from roadworthy.targets.c.values import Buffer, Leaf, Value, const, scalar, size

Inputs = Sequence[Result | None]


def product(walk: Lowering, x: Value, weights: Value, bias: Array | None = None) -> Value:
    """`x @ weights + bias` of matrices (rows, k) and (k, n)."""
    rows, k = x.shape
    n = weights.shape[1]
    if x.dtype != weights.dtype or weights.shape[0] != k or not rows * k * n:
        raise Unsupported(f"a product of {x.dtype} {x.shape} and {weights.dtype} {weights.shape}")
    walk.work(x.dtype, rows * n)  # refuses what is larger than any policy
    leaf, order = _lined_up(walk, x)
    shape = dense.Shape(
        rows=rows, n=n, runs=1, run=k, row_stride=_stride(leaf.index[:, 0]), run_stride=0,
        start=int(leaf.index.min()),
    )  # fmt: skip
    index = np.arange(rows)[:, None] * dense.out_stride(shape) + np.arange(n)
    if weights.known is not None:
        return multiplied(walk, leaf.buffer, weights.known[order], bias, shape, index)
    # What was computed is laid out as weights would be; the padding stays zero.
    place = panels.places(k, n, rows=rows, dtype=x.dtype, panels=walk.panels)
    held = walk.work(weights.dtype, panels.packed_size(k, n, rows=rows, dtype=x.dtype))
    if held.size != size(weights):
        zeros = view(walk, scalar(0, weights.dtype), lambda each: np.broadcast_to(each, held.size))
        walk.write(held, np.arange(held.size), zeros)
    walk.write(held, place, view(walk, weights, lambda each: each[order]))
    out = walk.work(x.dtype, dense.out_size(shape))
    walk.add(dense.call(leaf.buffer, held, dense.bias(bias, shape, x.dtype), out, shape))
    return rounded(Leaf(out, index))


def multiplied(
    walk: Lowering,
    x: Buffer,
    weights: Array,
    bias: Array | None,
    shape: dense.Shape,
    index: Array,
) -> Value:
    """The product with known weights, stored as the walk says; its elements lie at `index`."""
    if weights.shape != (shape.runs * shape.run, shape.n):  # the kernel reads as many
        raise Unsupported(
            f"{shape.runs * shape.run} × {shape.n} weights, and there are {weights.shape}"
        )
    out = walk.work(x.dtype, dense.out_size(shape))
    held, scale = panels.stored(
        weights, rows=shape.blocks, storage=walk.weights, panels=walk.panels
    )
    start = dense.bias(bias if scale is None else None, shape, x.dtype)
    walk.add(dense.call(x, held, start, out, shape))
    value: Value = Leaf(out, index)
    if scale is not None:
        value = elementwise("Mul", value, const(scale))
        value = value if bias is None else elementwise("Add", value, const(bias))
    return rounded(value)


def rounded(value: Value) -> Value:
    """What was summed in float, as the half float that it stands for."""
    return elementwise("RoundHalf", value) if value.dtype == np.float16 else value


def _stride(firsts: Array) -> int:
    return int(firsts[1] - firsts[0]) if len(firsts) > 1 else 0


def _lined_up(walk: Lowering, x: Value) -> tuple[Leaf, Array]:
    """The rows as runs of memory at even distances, and the order of the columns in a run.

    A layout that only shuffles columns is left as it is: the weights follow it.
    """
    leaf = walk.stored(x)
    for _ in range(2):
        order = np.argsort(leaf.index[0], kind="stable")
        sorted_rows = leaf.index[:, order]
        firsts = sorted_rows[:, 0]
        runs = (sorted_rows - firsts[:, None] == np.arange(leaf.shape[1])).all()
        even = len(firsts) < 3 or (np.diff(firsts) == firsts[1] - firsts[0]).all()
        if runs and even and (len(firsts) < 2 or firsts[1] >= firsts[0]):
            # The first column of each row tells where the row begins: it must be the smallest.
            return Leaf(leaf.buffer, sorted_rows), order
        buffer = walk.work(x.dtype, size(leaf))
        walk.write(buffer, np.arange(size(leaf)), leaf)
        leaf = Leaf(buffer, np.arange(size(leaf)).reshape(leaf.shape))
    raise AssertionError("an ordered value is lined up")


def _gemm(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    a, b, c = needed(inputs, 0), needed(inputs, 1), given(inputs, 2)
    if integer(node, "transA", 0):
        a = view(walk, a, np.transpose)
    if integer(node, "transB", 0):
        b = view(walk, b, np.transpose)
    alpha, beta = number(node, "alpha", 1.0), number(node, "beta", 1.0)
    bias: Array | None = None
    if c is not None and c.known is not None and alpha == beta == 1:
        # One number for each column; a column of its own is one for each row.
        is_row = c.known.size == b.shape[1] == c.shape[-1] if c.shape else False
        bias = c.known.reshape(-1) if is_row else None
    y = product(walk, a, b, bias)
    if alpha != 1:
        y = elementwise("Mul", y, scalar(alpha, y.dtype))
    if c is not None and bias is None:
        y = elementwise("Add", y, c if beta == 1 else elementwise("Mul", c, scalar(beta, c.dtype)))
    return [y]


def _matmul(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    return [matmul(walk, needed(inputs, 0), needed(inputs, 1))]


def matmul(walk: Lowering, a: Value, b: Value) -> Value:
    """The product of NumPy's `@`: leading axes are batches, and are broadcast."""
    squeeze = (len(a.shape) == 1, len(b.shape) == 1)
    a = view(walk, a, lambda each: each[None]) if squeeze[0] else a
    b = view(walk, b, lambda each: each[:, None]) if squeeze[1] else b
    rows, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if int(np.prod(b.shape[:-2], dtype=np.int64)) == 1:
        flat = product(
            walk,
            view(walk, a, lambda each: each.reshape(-1, k)),
            view(walk, b, lambda each: each.reshape(k, n)),
        )
        shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), rows, n)
        y = view(walk, walk.stored(flat), lambda each: each.reshape(shape))
    else:
        a, b = walk.stored(a), walk.stored(b)
        wide = [_stacked(walk, each, lead) for each in (a, b)]
        parts = [
            taken(walk, product(walk, taken(walk, wide[0], i), taken(walk, wide[1], i)), None)
            for i in range(wide[0].shape[0])
        ]
        y = view(walk, joined(walk, parts, 0), lambda each: each.reshape(*lead, rows, n))
    if squeeze[1]:
        y = view(walk, y, lambda each: each[..., 0])
    return (
        view(walk, y, lambda each: each[..., 0, :] if not squeeze[1] else each[..., 0])
        if squeeze[0]
        else y
    )


def _stacked(walk: Lowering, value: Value, lead: tuple[int, ...]) -> Value:
    """The matrices of a value one behind the other, repeated where its leading axes are."""
    tail = value.shape[-2:]
    return view(walk, value, lambda each: np.broadcast_to(each, (*lead, *tail)).reshape(-1, *tail))


def _einsum(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    equation = text(node, "equation", "").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if (
        len(terms) != 2
        or "." in equation
        or not arrow
        or any(len(set(t)) != len(t) for t in (*terms, right))
    ):
        raise Unsupported(f"the equation {equation!r}")
    a, b = needed(inputs, 0), needed(inputs, 1)
    sizes = dict(zip(terms[0] + terms[1], (*a.shape, *b.shape), strict=True))
    if any(tuple(map(sizes.get, t)) != x.shape for t, x in zip(terms, (a, b), strict=True)):
        raise Unsupported(f"the equation {equation!r} of {a.shape} and {b.shape}")
    shared = [each for each in terms[0] if each in terms[1]]
    batch = [each for each in shared if each in right]
    summed = [each for each in shared if each not in right]
    free = [[each for each in term if each not in shared] for term in terms]
    if any(each not in right for term in free for each in term):
        raise Unsupported(f"the equation {equation!r}")

    def arranged(value: Value, term: str, *groups: list[str]) -> Value:
        order = [term.index(each) for group in groups for each in group]
        shape = [int(np.prod([sizes[each] for each in group], dtype=np.int64)) for group in groups]
        return view(walk, value, lambda each: each.transpose(order).reshape(shape))

    y = matmul(
        walk,
        arranged(a, terms[0], batch, free[0], summed),
        arranged(b, terms[1], batch, summed, free[1]),
    )
    letters = [*batch, *free[0], *free[1]]
    shape = [sizes[each] for each in letters]
    order = [letters.index(each) for each in right]
    return [view(walk, walk.stored(y), lambda each: each.reshape(shape).transpose(order))]


OPERATORS: dict[str, Lower] = {"Gemm": _gemm, "MatMul": _matmul, "Einsum": _einsum}
