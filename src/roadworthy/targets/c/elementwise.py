"""Operations on single elements: their type, their C, and NumPy where constants can be folded.

Only what IEEE 754 fixes to the last bit is folded: the file is then the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from roadworthy.spec.port import Array
from roadworthy.targets.c.values import Tree, Value, const

C_TYPES = {
    "float16": "float", "float32": "float", "float64": "double", "bool": "uint8_t",
    "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t",
    "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t",
}  # fmt: skip
BOOL = np.dtype(bool)
COMPARISONS = {
    "Equal": "==", "Less": "<", "LessOrEqual": "<=", "Greater": ">", "GreaterOrEqual": ">=",
}  # fmt: skip
_LOGIC = {"And": "({0} && {1})", "Or": "({0} || {1})", "Xor": "(!{0} != !{1})", "Not": "(!{0})"}
_ANY = {
    **_LOGIC,
    **{op: f"({{0}} {sign} {{1}})" for op, sign in COMPARISONS.items()},
    "Where": "({0} ? {1} : {2})",
    "RoundHalf": "{0}",
    "Cast": "",  # depends on both types
}
# The same for floats and doubles; what begins with rw_ comes from the library, with its type.
_FLOAT = {
    "Add": "({0} + {1})", "Sub": "({0} - {1})", "Mul": "({0} * {1})", "Div": "({0} / {1})",
    "Neg": "(-{0})", "Abs": "@fabs({0})", "Sqrt": "@sqrt({0})", "Floor": "@floor({0})",
    "Ceil": "@ceil({0})", "Round": "@rint({0})", "Reciprocal": "(1 / {0})",
    "Exp": "rw_exp({0})", "Log": "rw_log({0})", "Tanh": "rw_tanh({0})", "Erf": "rw_erf({0})",
    "Sigmoid": "rw_sigmoid({0})", "Softplus": "rw_softplus({0})", "Sin": "rw_sin({0})",
    "Cos": "rw_cos({0})", "Tan": "rw_tan({0})", "Atan": "rw_atan({0})", "Asin": "rw_asin({0})",
    "Acos": "rw_acos({0})", "Sinh": "rw_sinh({0})", "Cosh": "rw_cosh({0})",
    "Asinh": "rw_asinh({0})", "Acosh": "rw_acosh({0})", "Atanh": "rw_atanh({0})",
    "Pow": "rw_pow({0}, {1})", "Mod": "rw_mod({0}, {1})", "Fmod": "@fmod({0}, {1})",
    "Max": "rw_max({0}, {1})", "Min": "rw_min({0}, {1})",
    "Relu": "rw_relu({0})", "LeakyRelu": "rw_leaky({0}, {1})", "Elu": "rw_elu({0}, {1})",
    "Sign": "rw_sign({0})", "IsNaN": "({0} != {0})",
}  # fmt: skip
_SIGNS = {
    "Add": "+", "Sub": "-", "Mul": "*", "BitwiseAnd": "&", "BitwiseOr": "|", "BitwiseXor": "^",
}  # fmt: skip
# `wide` has no sign, and is not promoted: overflow wraps around, as it does in ONNX. A shift by
# more bits than there are C leaves open: nothing is left then.
_WHOLE = {
    **{op: f"({{own}})(({{wide}}){{0}} {sign} ({{wide}}){{1}})" for op, sign in _SIGNS.items()},
    "Max": "rw_maxi_{name}({0}, {1})", "Min": "rw_mini_{name}({0}, {1})",
    "Div": "rw_divi_{name}({0}, {1})", "Mod": "rw_modi_{name}({0}, {1})",
    "Fmod": "rw_remi_{name}({0}, {1})", "BitwiseNot": "({own})~({wide}){0}",
    "ShiftLeft": "({1} < {bits} ? ({own})(({wide}){0} << {1}) : ({own})0)",
    "ShiftRight": "({1} < {bits} ? ({own})(({wide}){0} >> {1}) : ({own})0)",
    "Neg": "({own})(({wide})0 - ({wide}){0})", "Sign": "({own})(({0} > 0) - ({0} < 0))",
    "Abs": "({0} < 0 ? ({own})(({wide})0 - ({wide}){0}) : {0})",
    "Relu": "({0} < 0 ? ({own})0 : {0})",
}  # fmt: skip
_UNSIGNED = {**_WHOLE, "Abs": "{0}", "Relu": "{0}"}
_EXACT: dict[str, Callable[..., Array]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Neg": np.negative, "Abs": np.abs,
    "Sqrt": np.sqrt, "Floor": np.floor, "Ceil": np.ceil, "Round": np.rint, "Max": np.maximum,
    "Min": np.minimum, "Equal": np.equal, "Less": np.less, "LessOrEqual": np.less_equal,
    "Greater": np.greater, "GreaterOrEqual": np.greater_equal, "And": np.logical_and,
    "Or": np.logical_or, "Xor": np.logical_xor, "Not": np.logical_not, "Where": np.where,
    "Mod": np.mod, "Fmod": np.fmod, "Sign": np.sign,
}  # fmt: skip


def wide(kind: str) -> str:
    """The C type in which whole numbers are added and multiplied: it wraps around, and is not
    promoted to one with a sign."""
    if kind in ("float", "double"):
        return kind
    return "uint64_t" if "64" in kind else "uint32_t"


def elementwise(op: str, *args: Value, dtype: np.dtype | None = None) -> Value:
    """The operation as a value: folded where all is known and exact, else a tree."""
    first = args[1] if op == "Where" else args[0]
    kind = dtype or (
        BOOL if op in COMPARISONS or op in _LOGIC or op.startswith("Is") else first.dtype
    )
    if op == "Cast" and kind == first.dtype:
        return first
    shape = np.broadcast_shapes(*(each.shape for each in args))
    known = [numbers for each in args if (numbers := each.known) is not None]
    if len(known) == len(args):
        folded = _folded(op, known, kind)
        if folded is not None:
            return const(np.broadcast_to(folded, shape))
    _template(op, first.dtype)  # refused here, where the node is known
    return Tree(op, args, kind, shape)


add, sub, mul, div = (partial(elementwise, op) for op in ("Add", "Sub", "Mul", "Div"))


def _folded(op: str, known: list[Array], dtype: np.dtype) -> Array | None:
    with np.errstate(all="ignore"):
        if op == "Cast":
            return saturated(known[0], dtype)
        if op == "Div":
            if dtype.kind == "f":
                return np.asarray(known[0] / known[1], dtype)
            if (known[1] == 0).any():
                return None
            # Towards zero; by absolute values the lowest number would keep its sign.
            down, rest = np.divmod(*known)
            up = (rest != 0) & ((known[0] < 0) != (known[1] < 0))
            return np.asarray(down + up, dtype)
        if op in ("Mod", "Fmod") and dtype.kind != "f" and (known[1] == 0).any():
            return None
        return np.asarray(_EXACT[op](*known), dtype) if op in _EXACT else None


def saturated(array: Array, dtype: np.dtype) -> Array:
    """The cast as the C does it: floats beyond the range of a whole number take its end, NaN 0."""
    if array.dtype.kind == "f" and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        whole = np.nan_to_num(np.trunc(array.astype(np.float64)), nan=0.0)
        inside = np.clip(whole, -(2.0**63), 2.0**63)
        flat = [min(max(int(each), limits.min), limits.max) for each in inside.ravel()]
        return np.asarray(flat, dtype=dtype).reshape(array.shape)
    return array.astype(dtype)


def expression(tree: Tree, args: list[str]) -> str:
    """The operation in C, each argument being an expression of its own."""
    op, dtype = tree.op, tree.dtype
    given = tree.args[1].dtype if op == "Where" else tree.args[0].dtype
    text = (
        _cast(given, dtype, args[0])
        if op == "Cast"
        else _template(op, given).format(
            *args, name=given.name, own=C_TYPES[given.name], bits=8 * given.itemsize,
            wide=wide(C_TYPES[given.name]),
        )
    )  # fmt: skip
    return f"rw_half({text})" if dtype == np.float16 and op != "Where" else text


def _template(op: str, given: np.dtype) -> str:
    """The C of an operation on numbers of a type, with places for its arguments."""
    if op in _ANY:
        return _ANY[op]
    template = {"f": _FLOAT, "u": _UNSIGNED}.get(given.kind, _WHOLE).get(op)
    if template is None:
        raise NotImplementedError(f"{op} of {given}")
    if given == np.float64:  # without the f of @fabsf, and with a d for our own
        return template.replace("@", "").replace("rw_", "rw_d_")
    head, mark, tail = template.partition("@")
    return head + tail.replace("(", "f(", 1) if mark else template


def _cast(given: np.dtype, dtype: np.dtype, text: str) -> str:
    if dtype == BOOL:
        return f"({text} != 0)"
    if given == BOOL:
        text = f"({text} != 0)"
    elif given.kind == "f" and dtype.kind in "iu":
        return f"rw_to_{dtype.name}({text})"
    return f"({C_TYPES[dtype.name]}){text}" if C_TYPES[dtype.name] != C_TYPES[given.name] else text
