"""Operators on single elements, as ONNX names them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from functools import reduce as fold

import numpy as np

from roadworthy.cfile.elementwise import COMPARISONS, elementwise
from roadworthy.cfile.graph import DTYPES, Node
from roadworthy.cfile.lowering import Lower, Lowering, Result, Unsupported
from roadworthy.cfile.operators.reading import given, integer, needed, number, text
from roadworthy.cfile.values import Tree, Value, const, scalar, size

Inputs = Sequence[Result | None]
_UNARY = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Cos", "Cosh",
    "Erf", "Exp", "Floor", "IsNaN", "Log", "Neg", "Not", "Reciprocal", "Relu", "Round", "Sigmoid",
    "Sign", "Sin", "Sinh", "Softplus", "Sqrt", "Tan", "Tanh",
)  # fmt: skip
_BINARY = ("Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Mul", "Or", "Sub", "Xor")
_MOST_SQUARINGS = 4


def _plain(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    return [elementwise(node.op, *_alike(walk, inputs))]


def _alike(walk: Lowering, inputs: Inputs) -> list[Value]:
    """The operands; a tree that is to be repeated is written out, and so evaluated once."""
    given = [needed(inputs, place) for place in range(len(inputs))]
    whole = int(np.prod(np.broadcast_shapes(*(each.shape for each in given)), dtype=np.int64))
    return [
        walk.stored(each) if isinstance(each, Tree) and size(each) < whole else each
        for each in given
    ]


def _folded(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    """Any number of inputs, from left to right."""
    op = {"Sum": "Add", "Mean": "Add"}.get(node.op, node.op)
    value = fold(partial(elementwise, op), _alike(walk, inputs))
    if node.op == "Mean":
        value = elementwise("Div", value, scalar(len(inputs), value.dtype))
    return [value]


def _with(
    names: Sequence[tuple[str, float]], walk: Lowering, node: Node, inputs: Inputs
) -> list[Value]:
    x = needed(inputs, 0)
    return [elementwise(node.op, x, *(scalar(number(node, *each), x.dtype) for each in names))]


def _mod(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    op = "Fmod" if integer(node, "fmod", 0) else "Mod"
    return [elementwise(op, needed(inputs, 0), needed(inputs, 1))]


def _clip(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x = needed(inputs, 0)
    low, high = given(inputs, 1), given(inputs, 2)
    # One after the other: where the limits cross, the upper one wins, as in PyTorch.
    for op, limit in (("Max", low), ("Min", high)):
        if limit is not None:
            x = elementwise(op, x, limit)
    return [x]


def _cast(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    number_of = integer(node, "to", 0)
    if number_of not in DTYPES:
        raise Unsupported(f"the type with the number {number_of}")
    return [elementwise("Cast", needed(inputs, 0), dtype=np.dtype(DTYPES[number_of]))]


def _cast_like(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    return [elementwise("Cast", needed(inputs, 0), dtype=needed(inputs, 1).dtype)]


def _pow(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x, exponent = needed(inputs, 0), needed(inputs, 1)
    known = exponent.known
    power = (
        float(known.flat[0])
        if known is not None and known.size and (known == known.flat[0]).all()
        else None
    )
    if power in (1.0, 2.0, 3.0, 4.0) and known is not None and known.ndim <= len(x.shape):
        stored: Value = walk.stored(x) if power > 1 else x
        value = stored
        for _ in range(int(power) - 1):
            value = elementwise("Mul", value, stored)
        return [value]
    if power == 0.5:
        return [elementwise("Sqrt", x)]
    if x.dtype.kind != "f":
        real = np.dtype(np.float64)
        wide = elementwise(
            "Pow", *(elementwise("Cast", each, dtype=real) for each in (x, exponent))
        )
        return [elementwise("Cast", wide, dtype=x.dtype)]
    return [elementwise("Pow", x, elementwise("Cast", exponent, dtype=x.dtype))]


def _bit_shift(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    op = "ShiftLeft" if text(node, "direction", "") == "LEFT" else "ShiftRight"
    return [elementwise(op, needed(inputs, 0), needed(inputs, 1))]


def _is_inf(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x = needed(inputs, 0)
    found: Value | None = None
    for name, op, limit in (
        ("detect_positive", "Greater", "max"),
        ("detect_negative", "Less", "min"),
    ):
        if integer(node, name, 1):
            end = getattr(np.finfo(x.dtype), limit)
            side = elementwise(op, x, scalar(float(end), x.dtype))
            found = side if found is None else elementwise("Or", found, side)
    return [found or scalar(False, np.dtype(bool))]


def _gelu(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x = walk.stored(needed(inputs, 0))
    one, half = scalar(1, x.dtype), scalar(0.5, x.dtype)
    if text(node, "approximate", "none") == "tanh":
        cube = elementwise("Mul", elementwise("Mul", x, x), x)
        inner = elementwise("Add", x, elementwise("Mul", scalar(0.044715, x.dtype), cube))
        bent = elementwise("Tanh", elementwise("Mul", scalar(0.7978845608028654, x.dtype), inner))
    else:
        bent = elementwise("Erf", elementwise("Mul", x, scalar(0.7071067811865476, x.dtype)))
    return [elementwise("Mul", elementwise("Mul", x, half), elementwise("Add", one, bent))]


def _hard(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x = walk.stored(needed(inputs, 0))
    swish = node.op == "HardSwish"
    alpha = 1 / 6 if swish else number(node, "alpha", 0.2)
    beta = 0.5 if swish else number(node, "beta", 0.5)
    line = elementwise("Add", elementwise("Mul", x, scalar(alpha, x.dtype)), scalar(beta, x.dtype))
    bent = elementwise("Min", elementwise("Max", line, scalar(0, x.dtype)), scalar(1, x.dtype))
    return [elementwise("Mul", x, bent) if swish else bent]


def _selu(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x = needed(inputs, 0)
    if node.op == "Celu":
        alpha = scalar(number(node, "alpha", 1.0), x.dtype)
        bent = elementwise("Elu", elementwise("Div", x, alpha), scalar(1, x.dtype))
        return [elementwise("Mul", alpha, bent)]
    steepness = scalar(number(node, "alpha", 1.6732632423543772), x.dtype)
    gamma = scalar(number(node, "gamma", 1.0507009873554805), x.dtype)
    return [elementwise("Mul", gamma, elementwise("Elu", x, steepness))]


def _times_bent(op: str, walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    """Mish and Swish: x times something of itself."""
    x = walk.stored(needed(inputs, 0))
    bent = (
        elementwise("Sigmoid", x)
        if op == "Swish"
        else elementwise("Tanh", elementwise("Softplus", x))
    )
    return [elementwise("Mul", x, bent)]


def _softsign(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x = walk.stored(needed(inputs, 0))
    return [elementwise("Div", x, elementwise("Add", scalar(1, x.dtype), elementwise("Abs", x)))]


def _prelu(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    return [elementwise("LeakyRelu", walk.stored(needed(inputs, 0)), needed(inputs, 1))]


def _batch_norm(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x = needed(inputs, 0)
    shape = (-1, *(1,) * (len(x.shape) - 2))
    scale, shift, mean, var = (
        known.reshape(shape)
        for place in range(1, 5)
        if (known := needed(inputs, place).known) is not None
    )
    epsilon = number(node, "epsilon", 1e-5)
    # In double, and rounded once: two factors for each channel.
    factor = scale.astype(np.float64) / np.sqrt(var.astype(np.float64) + epsilon)
    offset = shift - mean.astype(np.float64) * factor
    scaled = elementwise("Mul", x, const(factor.astype(x.dtype)))
    return [elementwise("Add", scaled, const(offset.astype(x.dtype)))]


OPERATORS: dict[str, Lower] = {
    **dict.fromkeys((*_UNARY, *_BINARY, *COMPARISONS, "Where"), _plain),
    **dict.fromkeys(("Max", "Min", "Sum", "Mean"), _folded),
    "Elu": partial(_with, [("alpha", 1.0)]),
    "LeakyRelu": partial(_with, [("alpha", 0.01)]),
    "BitShift": _bit_shift,
    "Mod": _mod,
    "Clip": _clip,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Pow": _pow,
    "IsInf": _is_inf,
    "Gelu": _gelu,
    "HardSigmoid": _hard,
    "HardSwish": _hard,
    "Selu": _selu,
    "Celu": _selu,
    "Mish": partial(_times_bent, "Mish"),
    "Swish": partial(_times_bent, "Swish"),
    "Softsign": _softsign,
    "PRelu": _prelu,
    "BatchNormalization": _batch_norm,
}
