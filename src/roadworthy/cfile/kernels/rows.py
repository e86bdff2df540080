"""Kernels over the rows of a matrix: sums, extremes, where they are."""

from __future__ import annotations

from roadworthy.cfile.elementwise import C_TYPES
from roadworthy.cfile.statements import Address, Call
from roadworthy.cfile.values import Buffer, Leaf


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
    found = {}
    for kind in dict.fromkeys(C_TYPES.values()):
        found[f"rw_sum_{kind}"] = _lanes("sum", kind, "x[k + j]")
        found[f"rw_square_{kind}"] = _lanes("square", kind, "x[k + j] * x[k + j]")
        found[f"rw_product_{kind}"] = _FOLD.format(
            name="product", kind=kind, step=f"value = ({kind})(value * x[k]);"
        )
        for name, sign in (("max", ">"), ("min", "<")):
            nan = "x[k] != x[k] || " if kind in ("float", "double") else ""
            step = f"value = {nan}x[k] {sign} value ? x[k] : value;"
            found[f"rw_{name}_{kind}"] = _FOLD.format(name=name, kind=kind, step=step)
            found[f"rw_arg{name}_{kind}"] = _argument(name, kind, sign)
            label = "largest" if name == "max" else "least"
            found[f"rw_{label}_{kind}"] = _LARGEST.format(name=label, kind=kind, sign=sign)
        found[f"rw_running_{kind}"] = _RUNNING.format(kind=kind)
    return found


def _lanes(name: str, kind: str, term: str) -> str:
    """A sum in 16 lanes that are then added in pairs: one order for every machine."""
    return f"""\
static void rw_{name}_{kind}(const {kind} *x, {kind} *y, int rows, int n)
{{
    int r, k, j;
    for (r = 0; r < rows; r++, x += n) {{
        {kind} sums[16] = {{0}};
        for (k = 0; k + 16 <= n; k += 16) {{
            for (j = 0; j < 16; j++) {{
                sums[j] = ({kind})(sums[j] + {term});
            }}
        }}
        for (j = 0; k + j < n; j++) {{
            sums[j] = ({kind})(sums[j] + {term});
        }}
        for (k = 8; k > 0; k /= 2) {{
            for (j = 0; j < k; j++) {{
                sums[j] = ({kind})(sums[j] + sums[j + k]);
            }}
        }}
        y[r] = sums[0];
    }}
}}"""


_FOLD = """\
static void rw_{name}_{kind}(const {kind} *x, {kind} *y, int rows, int n)
{{
    int r, k;
    for (r = 0; r < rows; r++, x += n) {{
        {kind} value = x[0];
        for (k = 1; k < n; k++) {{
            {step}
        }}
        y[r] = value;
    }}
}}"""

_RUNNING = """\
static void rw_running_{kind}(const {kind} *x, {kind} *y, int rows, int n)
{{
    int r, k;
    for (r = 0; r < rows; r++, x += n, y += n) {{
        y[0] = x[0];
        for (k = 1; k < n; k++) {{
            y[k] = ({kind})(y[k - 1] + x[k]);
        }}
    }}
}}"""


def _argument(name: str, kind: str, sign: str) -> str:
    real = kind in ("float", "double")
    better = f"x[k] {sign} x[best]" + (" || x[k] != x[k]" if real else "")
    # NaN is the end of the search: nothing comes before the first one.
    held = " && x[best] == x[best]" if real else ""
    return f"""\
static void rw_arg{name}_{kind}(const {kind} *x, int64_t *y, int rows, int n)
{{
    int r, k, best;
    for (r = 0; r < rows; r++, x += n) {{
        best = 0;
        for (k = 1; k < n{held}; k++) {{
            best = {better} ? k : best;
        }}
        y[r] = best;
    }}
}}"""


_LARGEST = """\
static void rw_{name}_{kind}(const {kind} *x, {kind} *y, int64_t *places,
    int rows, int n, int count)
{{
    int r, k, found, best, j, taken;
    for (r = 0; r < rows; r++, x += n, y += count, places += count) {{
        for (found = 0; found < count; found++) {{
            best = -1;
            for (k = 0; k < n; k++) {{
                taken = 0;
                for (j = 0; j < found; j++) {{
                    taken |= places[j] == k;
                }}
                if (!taken && (best < 0 || x[k] {sign} x[best])) {{
                    best = k;
                }}
            }}
            y[found] = x[best];
            places[found] = best;
        }}
    }}
}}"""
