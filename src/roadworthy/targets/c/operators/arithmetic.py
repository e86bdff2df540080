"""Operators on single elements, as ONNX names them."""

from __future__ import annotations

import math
from functools import partial
from functools import reduce as fold

import numpy as np

from roadworthy.spec.onnx_graph import DTYPES, Node
from roadworthy.targets.c.elementwise import COMPARISONS, add, div, elementwise, mul
from roadworthy.targets.c.lowering import Inputs, Lower, Lowering, Unsupported
from roadworthy.targets.c.operators.reading import (
    every,
    given,
    integer,
    known,
    needed,
    number,
    text,
)
from roadworthy.targets.c.values import Tree, Value, const, scalar, size

_UNARY = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Cos", "Cosh",
    "Erf", "Exp", "Floor", "IsNaN", "Log", "Neg", "Not", "Reciprocal", "Relu", "Round", "Sigmoid",
    "Sign", "Sin", "Sinh", "Softplus", "Sqrt", "Tan", "Tanh",
)  # fmt: skip
_BINARY = ("Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Mul", "Or", "Sub", "Xor")


def _plain(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    return [elementwise(node.op, *_alike(walk, inputs))]


def _alike(walk: Lowering, inputs: Inputs) -> list[Value]:
    """The operands; a tree that is to be repeated is written out, and so evaluated once."""
    operands = every(inputs)
    whole = math.prod(np.broadcast_shapes(*(each.shape for each in operands)))
    return [
        walk.stored(each) if isinstance(each, Tree) and size(each) < whole else each
        for each in operands
    ]


def _folded(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    """Any number of inputs, from left to right."""
    op = {"Sum": "Add", "Mean": "Add"}.get(node.op, node.op)
    value = fold(partial(elementwise, op), _alike(walk, inputs))
    if node.op == "Mean":
        value = div(value, scalar(len(inputs), value.dtype))
    return [value]


def _with_alpha(default: float, walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x = needed(inputs, 0)
    return [elementwise(node.op, x, scalar(number(node, "alpha", default), x.dtype))]


def _mod(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    op = "Fmod" if integer(node, "fmod", 0) else "Mod"
    return [elementwise(op, needed(inputs, 0), needed(inputs, 1))]


def _clip(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x = needed(inputs, 0)
    low, high = given(inputs, 1), given(inputs, 2)
    # One after the other: where the limits cross, the upper one wins, as in PyTorch. Of equals the
    # second is taken: -0 within 0 and 6 stays -0.
    for op, limit in (("Max", low), ("Min", high)):
        if limit is not None:
            x = elementwise(op, limit, x)
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
    powers = set() if exponent.known is None else set(exponent.known.ravel().tolist())
    power = powers.pop() if len(powers) == 1 else None
    if power in (1, 2, 3, 4) and len(exponent.shape) <= len(x.shape):
        factors = [walk.stored(x) if power > 1 else x] * int(power)
        return [fold(mul, factors)]
    if power == 0.5 and x.dtype.kind == "f":
        return [elementwise("Sqrt", x)]
    kind = x.dtype if x.dtype.kind == "f" else np.dtype(np.float64)
    operands = (elementwise("Cast", each, dtype=kind) for each in (x, exponent))
    return [elementwise("Cast", elementwise("Pow", *operands), dtype=x.dtype)]


def _bit_shift(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    if needed(inputs, 0).dtype.kind != "u":  # a sign has rules of its own
        raise Unsupported(str(needed(inputs, 0).dtype))
    op = "ShiftLeft" if text(node, "direction", "") == "LEFT" else "ShiftRight"
    return [elementwise(op, needed(inputs, 0), needed(inputs, 1))]


def _is_inf(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x = needed(inputs, 0)
    ends = np.finfo(x.dtype)
    sides = [("detect_positive", "Greater", ends.max), ("detect_negative", "Less", ends.min)]
    found = [
        elementwise(op, x, scalar(float(end), x.dtype))
        for name, op, end in sides
        if integer(node, name, 1)
    ]
    return [fold(partial(elementwise, "Or"), found) if found else const(np.zeros(x.shape, bool))]


def _bent(node: Node, x: Value) -> Value:
    """An activation that is a formula of others; x is stored, and may be read twice."""

    def number_of(value: float) -> Value:
        return scalar(value, x.dtype)

    if node.op == "Gelu":
        if text(node, "approximate", "none") == "tanh":
            inner = add(x, mul(number_of(0.044715), mul(mul(x, x), x)))
            gate = elementwise("Tanh", mul(number_of(0.7978845608028654), inner))
        else:
            gate = elementwise("Erf", mul(x, number_of(0.7071067811865476)))
        return mul(mul(x, number_of(0.5)), add(number_of(1), gate))
    if node.op == "HardSigmoid":
        return _hard(x, number(node, "alpha", 0.2), number(node, "beta", 0.5))
    if node.op == "HardSwish":
        return mul(x, _hard(x, 1 / 6, 0.5))
    if node.op == "Swish":
        return mul(x, elementwise("Sigmoid", mul(number_of(number(node, "alpha", 1.0)), x)))
    if node.op == "Mish":
        return mul(x, elementwise("Tanh", elementwise("Softplus", x)))
    assert node.op == "Softsign"
    return div(x, add(number_of(1), elementwise("Abs", x)))


def _hard(x: Value, slope: float, middle: float) -> Value:
    line = add(mul(x, scalar(slope, x.dtype)), scalar(middle, x.dtype))
    return elementwise("Min", elementwise("Max", line, scalar(0, x.dtype)), scalar(1, x.dtype))


def _of_itself(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    return [_bent(node, walk.stored(needed(inputs, 0)))]


def _selu(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x = needed(inputs, 0)
    if node.op == "Celu":
        alpha = scalar(number(node, "alpha", 1.0), x.dtype)
        return [mul(alpha, elementwise("Elu", div(x, alpha), scalar(1, x.dtype)))]
    steepness = scalar(number(node, "alpha", 1.6732632423543772), x.dtype)
    gamma = scalar(number(node, "gamma", 1.0507009873554805), x.dtype)
    return [mul(gamma, elementwise("Elu", x, steepness))]


def _prelu(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    return [elementwise("LeakyRelu", walk.stored(needed(inputs, 0)), needed(inputs, 1))]


def _batch_norm(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x = needed(inputs, 0)
    shape = (-1, *(1,) * (len(x.shape) - 2))
    scale, shift, mean, var = (
        known(inputs, place, "a statistic").reshape(shape) for place in range(1, 5)
    )
    epsilon = number(node, "epsilon", 1e-5)
    if integer(node, "training_mode", 0):
        raise Unsupported("training_mode=1")
    # In double, and rounded once: two factors for each channel.
    factor = scale.astype(np.float64) / np.sqrt(var.astype(np.float64) + epsilon)
    offset = shift - mean.astype(np.float64) * factor
    return [add(mul(x, const(factor.astype(x.dtype))), const(offset.astype(x.dtype)))]


OPERATORS: dict[str, Lower] = {
    **dict.fromkeys((*_UNARY, *_BINARY, *COMPARISONS, "Where"), _plain),
    **dict.fromkeys(("Max", "Min", "Sum", "Mean"), _folded),
    "Elu": partial(_with_alpha, 1.0),
    "LeakyRelu": partial(_with_alpha, 0.01),
    "BitShift": _bit_shift,
    "Mod": _mod,
    "Clip": _clip,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Pow": _pow,
    "IsInf": _is_inf,
    "Selu": _selu,
    "Celu": _selu,
    **dict.fromkeys(("Gelu", "HardSigmoid", "HardSwish", "Mish", "Softsign", "Swish"), _of_itself),
    "PRelu": _prelu,
    "BatchNormalization": _batch_norm,
}
