"""Each kernel alone, beside NumPy."""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np
import pytest

from roadworthy.targets.c.kernels import dense, panels
from roadworthy.targets.c.values import Buffer
from tests.cfile.running import kernel, pointer

RNG = np.random.default_rng(0)


def product(
    x: np.ndarray, w: np.ndarray, b: np.ndarray, widths: panels.Panels = panels.PANELS
) -> np.ndarray:
    """The product as the kernel computes it, called as the generated code calls it."""
    rows, k = x.shape
    n = w.shape[1]
    shape = dense.Shape(rows=rows, n=n, runs=1, run=k, row_stride=k, run_stride=0)
    held, bias = panels.packed(w, rows=rows, panels=widths), dense.bias(b, shape, x.dtype)
    out = np.full(dense.out_size(shape), -1, x.dtype)
    read, result = (Buffer(dtype=x.dtype, size=each.size, role="work") for each in (x, out))
    names = {id(read): "x", id(held): "w", id(bias): "b", id(result): "y"}
    call = dense.call(read, held, bias, result, shape)
    kind = {"float32": "float", "float64": "double", "int32": "int32_t"}[x.dtype.name]
    (line,) = call.text(lambda buffer: names[id(buffer)])
    arguments = f"const {kind} *x, const {kind} *w, const {kind} *b, {kind} *y"
    text = f"void test({arguments})\n{{\n    {line}\n}}\n"
    kernel(text, widths).test(*map(pointer, (np.ascontiguousarray(x), held.data, bias.data, out)))
    return out.reshape(rows, -1)[:, :n]


@pytest.mark.parametrize(
    ("rows", "k", "n"),
    [
        (1, 5, 3), (1, 64, 2), (1, 70, 12), (1, 7, 20), (1, 48, 512), (1, 33, 200), (7, 12, 30),
        (9, 16, 130), (4, 1, 1), (3, 9, 64), (6, 5, 40), (11, 70, 16), (2, 8, 128),
    ],
)  # fmt: skip
def test_product_is_numpys(rows: int, k: int, n: int) -> None:
    x, w, b = (RNG.standard_normal(size).astype(np.float32) for size in ((rows, k), (k, n), (n,)))
    wanted = x.astype(float) @ w.astype(float) + b
    assert np.abs(product(x, w, b) - wanted).max() <= 1e-6 * max(k, 10)


@pytest.mark.parametrize("place", ["x", "w", "b"])
@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize(
    ("rows", "k", "n"),
    [
        (1, 5, 3), (1, 64, 2), (1, 64, 12), (1, 70, 30), (1, 7, 20), (1, 48, 512), (1, 33, 200),
        (7, 12, 30), (9, 16, 130), (3, 9, 64),
    ],
)  # fmt: skip
def test_what_is_not_finite_stays_where_it_belongs(
    rows: int, k: int, n: int, number: float, place: str
) -> None:
    x, w, b = (RNG.standard_normal(size).astype(np.float32) for size in ((rows, k), (k, n), (n,)))
    {"x": x, "w": w, "b": b}[place][..., 1] = number
    with np.errstate(invalid="ignore"):
        wanted = (x[:, :, None] * w).sum(1) + b  # of BLAS nothing is known here
    assert np.allclose(product(x, w, b), wanted, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize(("rows", "k", "n"), [(1, 40, 32), (1, 33, 200), (7, 12, 130)])
def test_width_of_panels_changes_no_bit(rows: int, k: int, n: int) -> None:
    x, w, b = (RNG.standard_normal(size).astype(np.float32) for size in ((rows, k), (k, n), (n,)))
    wanted = product(x, w, b)
    for width in (16, 32, 64, 128):
        assert product(x, w, b, panels.Panels(width, width)).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_product_of_other_types_is_numpys(dtype: str) -> None:
    x, w, b = (RNG.integers(-9, 9, size).astype(dtype) for size in ((3, 6), (6, 5), (5,)))
    assert (product(x, w, b) == x @ w + b).all()


@cache
def rows_library() -> ctypes.CDLL:
    results = dict.fromkeys(("sum", "square", "max", "min", "product", "running"), "float")
    results |= {"argmax": "int64_t", "argmin": "int64_t"}
    calls = [
        f"void t_{name}(const float *x, {out} *y, int rows, int n)\n"
        f"{{ rw_{name}_float(x, y, rows, n); }}"
        for name, out in results.items()
    ]
    calls.append(
        "void t_largest(const float *x, float *y, int64_t *p, int rows, int n, int k)\n"
        "{ rw_largest_float(x, y, p, rows, n, k); }"
    )
    return kernel("\n".join(calls))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("sum", np.sum), ("square", lambda x, axis: (x * x).sum(axis)), ("max", np.max),
        ("min", np.min), ("product", np.prod), ("argmax", np.argmax), ("argmin", np.argmin),
        ("running", np.cumsum),
    ],
)  # fmt: skip
@pytest.mark.parametrize("n", [1, 3, 16, 37])
def test_rows_are_reduced_as_numpy_does(name: str, wanted, n: int) -> None:  # type: ignore[no-untyped-def]
    x = np.round(RNG.standard_normal((5, n)) * 4).astype(np.float32) / 4  # ties
    out = np.zeros((5, n) if name == "running" else 5, np.int64 if "arg" in name else np.float32)
    getattr(rows_library(), f"t_{name}")(pointer(x), pointer(out), 5, n)
    assert np.allclose(out, wanted(x, axis=1), rtol=1e-5)


def test_extremes_keep_nan_and_its_place() -> None:
    x = np.array([[1, np.nan, 3, np.nan], [np.nan, 1, 2, 9], [0, -0.0, 0, 0]], np.float32)
    out, places = np.zeros(3, np.float32), np.zeros(3, np.int64)
    rows_library().t_max(pointer(x), pointer(out), 3, 4)
    rows_library().t_argmax(pointer(x), pointer(places), 3, 4)
    assert np.isnan(out).tolist() == [True, True, False]
    assert places.tolist() == [1, 0, 0]


def test_largest_come_in_order_and_the_first_of_equals_first() -> None:
    x = np.array([[3, 7, 7, 1, 5]], np.float32)
    values, places = np.zeros(3, np.float32), np.zeros(3, np.int64)
    rows_library().t_largest(pointer(x), pointer(values), pointer(places), 1, 5, 3)
    assert (values.tolist(), places.tolist()) == ([7, 7, 5], [1, 2, 4])
