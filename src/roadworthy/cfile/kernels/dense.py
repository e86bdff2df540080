"""`y = b + x · W`: vectors, matrices and convolutions, all with one kernel.

The sum of each output runs over k in one fixed order, whatever the width of the machine's vectors:
with contraction off the bits are the same everywhere. Weights lie in panels of up to 128 columns,
so that one row of a panel is one run of memory; a machine takes as many columns at a time as its
registers hold. Narrow outputs of one row have too few sums to keep a machine busy: each is split,
into 16 lanes (`dot`) or four quarters (`narrow`), which is the same split everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from roadworthy.cfile.elementwise import C_TYPES
from roadworthy.cfile.statements import Address, Call
from roadworthy.cfile.values import Buffer
from roadworthy.spec.port import Array

Storage = Literal["float32", "float16", "int8"]
PAD = 16
DOT_COLUMNS, NARROW_COLUMNS, NARROW_RUN = 4, 32, 16
# Rows and vectors of one block: its sums stay in registers.
BLOCKS = (*((rows, wide) for rows in (4, 3, 1) for wide in (4, 2, 1)), (1, 8))


class Panels(NamedTuple):
    """Columns that lie side by side, a power of two from 16 to 128.

    vector  in the weights that a single row is multiplied with, each of which is read once: narrow
            panels are read from one end to the other, several at a time where registers are wide
    matrix  in those of several rows, which are read again and again
    """

    vector: int = 32
    matrix: int = 128


PANELS = Panels()

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


def _is_float(dtype: np.dtype) -> bool:
    return dtype in (np.dtype(np.float32), np.dtype(np.float16))


def _form(n: int, rows: int) -> str:
    return "dot" if n <= DOT_COLUMNS and rows == 1 else "panel"


def _padded(n: int) -> int:
    return -(-n // PAD) * PAD


def _panels(n: int, widest: int) -> Iterator[tuple[int, int]]:
    """First column and width of each panel: 128 as long as it goes, then 64, 32, 16."""
    start, width = 0, widest
    while start < n:
        while width > n - start:
            width //= 2
        yield start, width
        start += width


def places(k: int, n: int, *, rows: int, dtype: np.dtype, panels: Panels = PANELS) -> Array:
    """Where element (k, n) of a matrix lies in its packed form."""
    if not _is_float(dtype):
        return np.arange(k * n).reshape(k, n)
    if _form(n, rows) == "dot":
        return np.arange(n) * k + np.arange(k)[:, None]
    found = np.empty((k, _padded(n)), np.int64)
    for start, width in _panels(_padded(n), panels.vector if rows == 1 else panels.matrix):
        found[:, start : start + width] = (
            start * k + np.arange(k)[:, None] * width + np.arange(width)
        )
    return found[:, :n]


def packed_size(k: int, n: int, *, rows: int, dtype: np.dtype) -> int:
    return k * (n if _form(n, rows) == "dot" or not _is_float(dtype) else _padded(n))


def packed(weights: Array, *, rows: int, panels: Panels = PANELS) -> Buffer:
    """A matrix (k, n) of constants as the kernel reads it."""
    k, n = weights.shape
    dtype = weights.dtype
    kept = np.dtype(np.float32) if _is_float(dtype) else dtype
    held = np.zeros(packed_size(k, n, rows=rows, dtype=dtype), kept)
    held[places(k, n, rows=rows, dtype=dtype, panels=panels)] = weights
    return _stored(held)


def stored(
    weights: Array, *, rows: int, storage: Storage, panels: Panels = PANELS
) -> tuple[Buffer, Array | None]:
    """A matrix (k, n) of constants in some storage, and the scale of each column of whole numbers.

    Half floats and bytes lie row by row, and become floats as they are read.
    """
    if storage == "float32" or not _is_float(weights.dtype):
        return packed(weights, rows=rows, panels=panels), None
    if storage == "float16" or weights.dtype == np.float16:
        return _stored(weights.astype(np.float16).ravel().view(np.uint16)), None
    largest = np.abs(weights).max(axis=0).astype(np.float64)
    scale = np.where(largest > 0, largest / 127, 1.0)
    return _stored(np.rint(weights / scale).astype(np.int8).ravel()), scale.astype(np.float32)


def _stored(held: Array) -> Buffer:
    return Buffer(dtype=held.dtype, size=held.size, role="const", data=held)


def bias(values: Array | None, shape: Shape, dtype: np.dtype) -> Buffer:
    held = np.zeros(out_stride(shape), np.float32 if _is_float(dtype) else dtype)
    if values is not None:
        held[: shape.n] = values
    return _stored(held)


def out_stride(shape: Shape) -> int:
    return shape.n if _form(shape.n, shape.blocks) == "dot" else _padded(shape.n)


def out_size(shape: Shape) -> int:
    return shape.lines * shape.rows * out_stride(shape)


def call(x: Buffer, weights: Buffer, held_bias: Buffer, out: Buffer, shape: Shape) -> Call:
    """The statement that computes the product."""

    def text(at: Address) -> list[str]:
        start = f"{at(x)} + {shape.start}" if shape.start else at(x)
        ends = f"{at(weights)}, {at(held_bias)}"
        k = shape.runs * shape.run
        stride = out_stride(shape)
        small = _SMALL.get(weights.dtype.name) if _is_float(x.dtype) else None
        if small or not _is_float(x.dtype):
            name = small or f"rw_dense_{C_TYPES[x.dtype.name]}"
            sizes: list[int | str] = [
                shape.rows,
                shape.n,
                stride,
                shape.row_stride,
                shape.runs,
                shape.run,
                shape.run_stride,
            ]
        elif _form(shape.n, shape.blocks) == "dot":
            return [f"rw_dot({start}, {ends}, {at(out)}, {shape.n}, {k});"]
        elif (
            shape.rows == 1
            and stride <= NARROW_COLUMNS
            and k >= NARROW_RUN
            and shape.runs == 1
            and shape.lines == 1
        ):
            return [f"rw_narrow({start}, {ends}, {at(out)}, {stride}, {k});"]
        elif shape.blocks == 1:
            return [f"rw_vector({start}, {ends}, {at(out)}, {stride}, {k});"]
        else:
            name = "rw_dense"
            sizes = [shape.rows, stride, shape.row_stride, shape.runs, shape.run, shape.run_stride]
            sizes.append("RW_PANEL")
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
    found["rw_dense"] = _DENSE.replace("CASES", "".join(_case(*block) for block in BLOCKS))
    found |= {f"rw_side_{vectors}": _side(vectors) for vectors in (8, 4)}
    found["rw_vector"] = _VECTOR
    found["rw_narrow"] = _NARROW
    found["rw_dot"] = _DOT
    for name, kind, held, read in (
        ("rw_halves", "float", "uint16_t", "rw_from_half(line[c])"),
        ("rw_bytes", "float", "int8_t", "(float)line[c]"),
        *((f"rw_dense_{kind}", kind, kind, "line[c]") for kind in dict.fromkeys(C_TYPES.values())),
    ):
        text = _PLAIN.replace("NAME", name).replace("TYPE", kind)
        found[name] = text.replace("HELD", held).replace("READ", read)
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


def _case(rows: int, vectors: int) -> str:
    return f"""\
                case {10 * rows + vectors}:
                    rw_block_{rows}x{vectors}(xr, wc, bc, yr, row, runs, run, apart, width, n);
                    break;
"""


# Rows go by fours and threes, so that few are left over: 9 are three threes.
_DENSE = """\
static void rw_dense(const float *x, const float *w, const float *b, float *y,
    int rows, int n, int row, int runs, int run, int apart, int width)
{
    int start = 0, column, taken, tall, left;
    for (; start < n; w += width * runs * run, start += width) {
        while (width > n - start) {
            width /= 2;
        }
        for (column = 0; column < width; column += taken * RW_LANES) {
            const float *wc = w + column, *bc = b + start + column, *xr = x;
            float *yr = y + start + column;
            const int most = rows < 3 ? RW_LONG : RW_WIDE;
            taken = 1;
            while (taken < most && 2 * taken * RW_LANES <= width - column) {
                taken *= 2;
            }
            for (left = rows; left > 0; left -= tall, xr += tall * row, yr += tall * n) {
                tall = left > 3 && left != 6 && left != 9 ? 4 : left > 2 ? 3 : 1;
                switch (10 * tall + taken) {
CASES\
                default:
                    break;
                }
            }
        }
    }
}"""

# Panels side by side are streams of memory: several come faster than one.
_VECTOR = """\
static void rw_vector(const float *x, const float *w, const float *b, float *y, int n, int run)
{
    const int long_one = 8 * RW_LANES, short_one = 4 * RW_LANES;
    int start = 0;
    if (RW_COLUMNS < long_one && RW_LONG == 8) {
        for (; n - start >= long_one; start += long_one, w += long_one * run) {
            rw_side_8(x, w, b + start, y + start, run);
        }
    }
    if (RW_COLUMNS < short_one && n - start >= short_one) {
        rw_side_4(x, w, b + start, y + start, run);
        start += short_one;
        w += short_one * run;
    }
    if (start < n) {
        rw_dense(x, w, b + start, y + start, 1, n - start, 0, 1, run, 0, RW_COLUMNS);
    }
}"""


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


_NARROW = """\
static void rw_narrow(const float *x, const float *w, const float *b, float *y, int n, int run)
{
    const int quarter = run / 4;
    int start = 0, width, column, k;
    for (; start < n; start += width) {
        width = n - start >= 32 && RW_COLUMNS >= 32 ? 32 : 16;
        for (column = 0; column < width; column += RW_LANES) {
            const float *w0 = w + column, *w1 = w0 + quarter * width;
            const float *w2 = w1 + quarter * width, *w3 = w2 + quarter * width;
            rw_vec a0 = RW_LOAD(b + start + column), a1 = a0 - a0, a2 = a1, a3 = a1;
            for (k = 0; k < quarter; k++) {
                a0 += x[k] * RW_LOAD(w0 + k * width);
                a1 += x[quarter + k] * RW_LOAD(w1 + k * width);
                a2 += x[2 * quarter + k] * RW_LOAD(w2 + k * width);
                a3 += x[3 * quarter + k] * RW_LOAD(w3 + k * width);
            }
            for (k = 4 * quarter; k < run; k++) {
                a0 += x[k] * RW_LOAD(w0 + k * width);
            }
            RW_SAVE(y + start + column, (a0 + a1) + (a2 + a3));
        }
        w += width * run;
    }
}"""

_DOT = """\
static void rw_dot(const float *x, const float *w, const float *b, float *y, int n, int run)
{
    int column, k, j;
    for (column = 0; column < n; column++, w += run) {
        float sums[16] = {0};
        for (k = 0; k + 16 <= run; k += 16) {
            for (j = 0; j < 16; j++) {
                sums[j] += x[k + j] * w[k + j];
            }
        }
        for (j = 0; k + j < run; j++) {
            sums[j] += x[k + j] * w[k + j];
        }
        for (k = 8; k > 0; k /= 2) {
            for (j = 0; j < k; j++) {
                sums[j] += sums[j + k];
            }
        }
        y[column] = b[column] + sums[0];
    }
}"""

# Weights row by row: for doubles and whole numbers, which policies rarely hold, and for weights
# that are stored in fewer bytes than a float has.
_PLAIN = """\
static void NAME(const TYPE *x, const HELD *w, const TYPE *b, TYPE *y,
    int rows, int n, int wide, int row, int runs, int run, int apart)
{
    int r, c, i, k;
    for (r = 0; r < rows; r++) {
        for (c = 0; c < n; c++) {
            y[r * wide + c] = b[c];
        }
        for (i = 0; i < runs; i++) {
            for (k = 0; k < run; k++) {
                const TYPE value = x[r * row + i * apart + k];
                const HELD *line = w + (i * run + k) * n;
                for (c = 0; c < n; c++) {
                    y[r * wide + c] = (TYPE)(y[r * wide + c] + value * READ);
                }
            }
        }
    }
}"""
