"""The functions of math.c on a sample of all floats; benchmarks/c_math.py takes every one."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.cfile.running import kernel, pointer

ODD = (
    "rw_tanh({})", "rw_elu({}, 1.0f)", "rw_erf({})", "rw_sin({})", "rw_tan({})", "rw_atan({})",
    "rw_asin({})", "rw_sinh({})", "rw_asinh({})", "rw_atanh({})", "rw_atan2({}, 1.0f)",
)  # fmt: skip
BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def c_math() -> ModuleType:
    """The script, as a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        spec = importlib.util.spec_from_file_location("c_math", BENCHMARKS / "c_math.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["c_math"] = module
        spec.loader.exec_module(module)
    return module


def test_every_function_stays_within_its_bound(c_math: ModuleType, tmp_path: Path) -> None:
    for name, (_, bound) in c_math.FUNCTIONS.items():
        found = c_math.worst(c_math.compiled(name, tmp_path), step=99991)
        assert found["ulp"] <= bound, (name, found)
        assert found["other_class"] == 0, (name, found)


def test_half_floats_convert_as_numpy_does() -> None:
    text = (
        "void to(const float *x, uint16_t *y, int n)\n"
        "{ for (int i = 0; i < n; i++) y[i] = rw_to_half(x[i]); }\n"
        "void from(const uint16_t *x, float *y, int n)\n"
        "{ for (int i = 0; i < n; i++) y[i] = rw_from_half(x[i]); }\n"
    )
    made = kernel(text)
    bits = np.arange(65536, dtype=np.uint16)
    wide = np.zeros(65536, np.float32)
    made["from"](pointer(bits), pointer(wide), 65536)
    assert np.array_equal(wide, bits.view(np.float16).astype(np.float32), equal_nan=True)
    # Every float16, what lies halfway to the next, and one ulp on either side of that.
    halfway = (wide[:31743] + wide[1:31744]) / 2
    given = np.concatenate(
        [
            wide,
            halfway,
            np.nextafter(halfway, np.float32(0)),
            np.nextafter(halfway, np.float32(9e9)),
            -halfway,
            np.float32([1e30, -1e30, 1e-30]),
        ]
    )
    got = np.zeros(given.size, np.uint16)
    made["to"](pointer(given), pointer(got), given.size)
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = given.astype(np.float16)
    assert np.array_equal(got.view(np.float16), wanted, equal_nan=True)
    assert np.array_equal(np.signbit(got.view(np.float16)), np.signbit(wanted))


@pytest.mark.parametrize("name", ["exp", "tanh", "sigmoid", "elu"])
def test_doubles_are_as_exact_as_floats_and_keep_nan_and_infinity(name: str) -> None:
    call = "rw_d_elu(x[i], 1.0)" if name == "elu" else f"rw_d_{name}(x[i])"
    made = kernel(
        "void all(const double *x, double *y, int n)\n"
        f"{{ for (int i = 0; i < n; i++) y[i] = {call}; }}\n"
    )
    rng = np.random.default_rng(0)
    edges = [0.0, -0.0, np.nan, np.inf, -np.inf, 22.1, -22.1, 689.9, -689.9, 709.7, -800.0, 1e-300]
    scales = 10.0 ** rng.uniform(-12, 2.5, 100_000)
    given = np.concatenate([edges, scales * rng.choice([-1, 1], scales.size)])
    got = np.zeros_like(given)
    made["all"](pointer(given), pointer(got), given.size)
    exact = given.astype(np.longdouble)
    with np.errstate(all="ignore"):
        wanted = {
            "exp": lambda: np.exp(exact),
            "tanh": lambda: np.tanh(exact),
            "sigmoid": lambda: 1 / (1 + np.exp(-exact)),
            "elu": lambda: np.where(exact > 0, exact, np.expm1(exact)),
        }[name]()
        nearest = wanted.astype(np.float64)
        gap = np.abs((got - wanted) / np.spacing(np.abs(nearest)))
    finite = np.isfinite(nearest)
    assert np.array_equal(got[~finite], nearest[~finite], equal_nan=True)
    assert gap[finite].max() <= 2.5


def test_what_is_odd_keeps_the_sign_of_zero() -> None:
    """Those samples of all floats that step over it do not see it."""
    text = "void run(const float *x, float *y) { " + " ".join(
        f"y[{place}] = {call.format('x[0]')};" for place, call in enumerate(ODD)
    )
    made, given = kernel(text + " }"), np.array([-0.0], np.float32)
    got = np.ones(len(ODD), np.float32)
    made.run(pointer(given), pointer(got))
    assert dict(zip(ODD, np.signbit(got) & (got == 0), strict=True)) == dict.fromkeys(ODD, True)
