"""`y = b + x · W`: vectors, matrices and convolutions, all with one kernel.

The sum of each output runs over k in one fixed order, whatever the width of the machine's vectors:
with contraction off the bits are the same everywhere. Weights lie in panels of up to 128 columns,
so that one row of a panel is one run of memory; a machine takes as many columns at a time as its
registers hold. Narrow outputs of one row have too few sums to keep a machine busy: each is split,
into 16 lanes (`dot`) or four quarters (`narrow`), which is the same split everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from roadworthy.spec.port import Array
from roadworthy.targets.c import library
from roadworthy.targets.c.elementwise import C_TYPES, wide
from roadworthy.targets.c.kernels.panels import held, is_dot, is_float, padded
from roadworthy.targets.c.statements import Address, Call
from roadworthy.targets.c.values import Buffer

NARROW_COLUMNS, NARROW_RUN = 32, 16
# Rows and vectors of one block: its sums stay in registers.
BLOCKS = (*((rows, wide) for rows in (4, 3, 1) for wide in (4, 2, 1)), (1, 8))
# Weights of so many bytes are read from alternating ends, step by step: `TURN` says from which.
LARGE, TURN = 2**17, "work->back"
# How small weights are stored → the kernel that reads them.
_SMALL = {"uint16": "rw_halves", "int8": "rw_bytes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes of a product, in elements.

    A row of x is `runs` runs of `run` elements, `run_stride` apart; rows are `row_stride` apart,
    and lines of rows (those of an image) `line_stride`. `start` is where the first one begins.
    """

    rows: int
    n: int
    runs: int
    run: int
    row_stride: int
    run_stride: int
    start: int = 0
    lines: int = 1
    line_stride: int = 0

    @property
    def blocks(self) -> int:
        """1 where it is a vector times a matrix: which form weights take depends on it."""
        return self.rows * self.lines * self.runs

    @property
    def strides(self) -> tuple[int, int, int, int]:
        return self.row_stride, self.runs, self.run, self.run_stride


def bias(values: Array | None, shape: Shape, dtype: np.dtype) -> Buffer:
    numbers = np.zeros(out_stride(shape), np.float32 if is_float(dtype) else dtype)
    if values is not None:
        numbers[: shape.n] = values
    return held(numbers)


def out_stride(shape: Shape) -> int:
    return shape.n if is_dot(shape.n, shape.blocks) else padded(shape.n)


def out_size(shape: Shape) -> int:
    return shape.lines * shape.rows * out_stride(shape)


def call(x: Buffer, weights: Buffer, held_bias: Buffer, out: Buffer, shape: Shape) -> Call:
    """The statement that computes the product."""

    def text(at: Address) -> list[str]:
        start = f"{at(x)} + {shape.start}" if shape.start else at(x)
        ends = f"{at(weights)}, {at(held_bias)}"
        k = shape.runs * shape.run
        stride = out_stride(shape)
        small = _SMALL.get(weights.dtype.name) if is_float(x.dtype) else None
        if small or not is_float(x.dtype):
            name = small or f"rw_dense_{C_TYPES[x.dtype.name]}"
            sizes: list[int | str] = [shape.rows, shape.n, stride, *shape.strides]
        elif is_dot(shape.n, shape.blocks):
            return [f"rw_dot({start}, {ends}, {at(out)}, {shape.n}, {k});"]
        elif shape.blocks == 1 and stride <= NARROW_COLUMNS and k >= NARROW_RUN:
            return [f"rw_narrow({start}, {ends}, {at(out)}, {stride}, {k});"]
        elif shape.blocks == 1:
            turn = TURN if 4 * k * stride >= LARGE else "0"
            return [f"rw_vector({start}, {ends}, {at(out)}, {stride}, {k}, {turn});"]
        else:
            name = "rw_dense"
            sizes = [shape.rows, stride, *shape.strides, "RW_PANEL"]
        listed = ", ".join(map(str, sizes))
        if shape.lines == 1:
            return [f"{name}({start}, {ends}, {at(out)}, {listed});"]
        return [
            f"for (int line = 0; line < {shape.lines}; line++) {{",
            f"    {name}({start} + line * {shape.line_stride}, {ends},"
            f" {at(out)} + line * {shape.rows * stride}, {listed});",
            "}",
        ]

    return Call(text=text, reads=(x, weights, held_bias), writes=(out,))


def functions() -> dict[str, str]:
    """Name → text of the kernels."""
    found = {f"rw_block_{rows}x{vectors}": _block(rows, vectors) for rows, vectors in BLOCKS}
    found |= {f"rw_side_{vectors}": _side(vectors) for vectors in (8, 4)}
    texts = library.functions("dense.c")
    found |= {name: texts[name] for name in ("rw_dense", "rw_vector", "rw_narrow", "rw_dot")}
    for name, kind, stored, read in (
        ("rw_halves", "float", "uint16_t", "rw_from_half(line[c])"),
        ("rw_bytes", "float", "int8_t", "(float)line[c]"),
        *((f"rw_dense_{kind}", kind, kind, "line[c]") for kind in dict.fromkeys(C_TYPES.values())),
    ):
        plain = texts["rw_PLAIN"]
        words = {"TYPE": kind, "WIDE": wide(kind), "HELD": stored, "READ": read}
        found[name] = library.filled(plain, rw_PLAIN=name, **words)
    return found


def _block(rows: int, vectors: int) -> str:
    """`rows` × `vectors` sums in registers, over all of k."""
    grid = [(r, v) for r in range(rows) for v in range(vectors)]
    if rows == 1:
        step = ["const float x0 = *p;"]
        step += [f"a0_{v} += x0 * RW_LOAD(w + {v} * RW_LANES);" for v in range(vectors)]
    else:
        step = [f"rw_vec w{v} = RW_LOAD(w + {v} * RW_LANES);" for v in range(vectors)]
        step += [f"RW_HOLD(w{v});" for v in range(vectors)]
        step += [f"RW_ADD(a{r}_{v}, p[{r} * row], w{v});" for r, v in grid]
    return "\n".join([
        f"static void rw_block_{rows}x{vectors}(const float *x, const float *w, const float *b,",
        "    float *y, int row, int runs, int run, int apart, int width, int wide)",
        "{",
        *(f"    rw_vec a{r}_{v} = RW_LOAD(b + {v} * RW_LANES);" for r, v in grid),
        "    int i;",
        *(["    (void)row;"] if rows == 1 else []),
        "    for (i = 0; i < runs; i++) {",
        "        const float *p = x + i * apart, *const end = p + run;",
        "        for (;;) {",
        "            RW_TURNS({",
        *(f"                {line}" for line in step),
        "                w += width;",
        "                RW_STAY(w);",
        "                if (++p == end) {",
        "                    break;",
        "                }",
        "            })",
        "        }",
        "    }",
        *(f"    RW_SAVE(y + {r} * wide + {v} * RW_LANES, a{r}_{v});" for r, v in grid),
        "}",
    ])  # fmt: skip


def _side(count: int) -> str:
    """Some vectors of sums for one row, over as many panels as they take."""
    vectors = range(count)
    return "\n".join([
        f"static void rw_side_{count}(const float *x, const float *w, const float *b, float *y,",
        "    int run)",
        "{",
        "    const int apart = RW_COLUMNS * run;",
        "    const float *const end = x + run;",
        *(f"    rw_vec a{v} = RW_LOAD(b + {v} * RW_LANES);" for v in vectors),
        "    for (; x != end; x++, w += RW_COLUMNS) {",
        *(f"        a{v} += *x * RW_LOAD(w + RW_AT({v} * RW_LANES, apart));" for v in vectors),
        "    }",
        *(f"    RW_SAVE(y + {v} * RW_LANES, a{v});" for v in vectors),
        "}",
    ])  # fmt: skip
