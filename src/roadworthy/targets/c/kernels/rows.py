"""Kernels over the rows of a matrix: sums, extremes, where they are."""

from __future__ import annotations

from roadworthy.targets.c import library
from roadworthy.targets.c.elementwise import C_TYPES, wide
from roadworthy.targets.c.statements import Address, Call
from roadworthy.targets.c.values import Buffer, Leaf


def _at(leaf: Leaf, at: Address) -> str:
    start = int(leaf.index.flat[0])
    return f"{at(leaf.buffer)} + {start}" if start else at(leaf.buffer)


def _kind(buffer: Buffer) -> str:
    return C_TYPES[buffer.dtype.name]


def _call(name: str, x: Leaf, outs: tuple[Buffer, ...], *more: int) -> Call:
    sizes = ", ".join(map(str, (*x.shape, *more)))

    def text(at: Address) -> list[str]:
        return [f"rw_{name}_{_kind(x.buffer)}({_at(x, at)}, {', '.join(map(at, outs))}, {sizes});"]

    return Call(text=text, reads=(x.buffer,), writes=outs)


def reduce(x: Leaf, out: Buffer, kind: str) -> Call:
    """Sum, square (sum of squares), product, max or min of each row."""
    return _call(kind, x, (out,))


def argument(x: Leaf, out: Buffer, *, least: bool) -> Call:
    """Where the greatest (least) of each row is: the first of equals, and NaN before all."""
    return _call("argmin" if least else "argmax", x, (out,))


def running_sum(x: Leaf, out: Buffer) -> Call:
    return _call("running", x, (out,))


def largest(x: Leaf, values: Buffer, places: Buffer, k: int, *, least: bool) -> Call:
    """The k greatest (least) of each row in falling (rising) order; the first of equals first."""
    return _call("least" if least else "largest", x, (values, places), k)


def functions() -> dict[str, str]:
    return {
        name: text for kind in dict.fromkeys(C_TYPES.values()) for name, text in _of(kind).items()
    }


def _of(kind: str) -> dict[str, str]:
    """The kernels for one type of numbers."""
    texts = library.functions("rows.c")
    found: dict[str, str] = {}

    def fill(template: str, **words: str) -> None:
        name = library.filled(template, **words, TYPE=kind)
        found[name] = library.filled(texts[template], **words, TYPE=kind, WIDE=wide(kind))

    real = kind in ("float", "double")
    fill("rw_LANES_TYPE", LANES="sum", TERM="(WIDE)x[k + j]")
    fill("rw_LANES_TYPE", LANES="square", TERM="(WIDE)x[k + j] * (WIDE)x[k + j]")
    fill("rw_FOLD_TYPE", FOLD="product", STEP="(TYPE)((WIDE)value * (WIDE)x[k])")
    fill("rw_running_TYPE")
    for name, most, sign in (("max", "largest", ">"), ("min", "least", "<")):
        nan = "x[k] != x[k] || " if real else ""
        fill("rw_FOLD_TYPE", FOLD=name, STEP=f"{nan}x[k] {sign} value ? x[k] : value")
        fill(
            "rw_argEXTREME_TYPE", EXTREME=name, SIGN=sign,
            UNLESS_NAN=" && x[best] == x[best]" if real else "",
            OR_NAN=" || x[k] != x[k]" if real else "",
        )  # fmt: skip
        first = ("x[k]", "x[best]") if name == "max" else ("x[best]", "x[k]")
        greatest = " || ({0} != {0} && {1} == {1})".format(*first) if real else ""
        fill("rw_MOST_TYPE", MOST=most, SIGN=sign, NAN_GREATEST=greatest)
    return found
