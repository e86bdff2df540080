"""The functions of cfile/library/math.c beside the C library's in double, on all 2^32 floats.

Each takes half a minute to a minute on one core. `--step 997` looks at every 997th float only,
`--only cos` at one function; the others stay in the file as they were.
atan2 has two arguments, and 2^32 pairs of each kind are looked at: every float first beside another
of random bits, and twice beside a fixed one; and for every pair of exponents with every pair of
signs 16384 pairs of mantissas, nine of them of 0, 1 and all ones (which are the zeros, infinities,
NaN and the ends of every binade), the others at random.
The result goes to results/c_math.json: the worst distance in units in the last place (0.5 where
every result is the nearest float), where it is, and how many results are of another class (NaN,
infinite, a zero of the other sign) than they should be.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path

import machine

# Name → the same function in double, and how far ours may be from it, in ulp.
FUNCTIONS = {
    "exp": ("exp(x)", 1.5),
    "elu_one": ("(x > 0 ? x : expm1(x))", 1.5),
    "tanh": ("tanh(x)", 1.5),
    "sigmoid": ("(x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)))", 1.5),
    "softplus": ("(x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)))", 1.5),
    "erf": ("erf(x)", 2.0),
    "log": ("log(x)", 1.5),
    "sin": ("sin(x)", 1.5),
    "cos": ("cos(x)", 1.5),
    "tan": ("tan(x)", 1.5),
    "atan": ("atan(x)", 1.5),
    "asin": ("asin(x)", 1.5),
    "acos": ("acos(x)", 1.5),
    "sinh": ("sinh(x)", 1.5),
    "cosh": ("cosh(x)", 1.5),
    "asinh": ("asinh(x)", 1.5),
    "acosh": ("acosh(x)", 1.5),
    "atanh": ("atanh(x)", 1.5),
    "atan2_pairs": ("atan2(x, (double)rw_second(given[i]))", 1.5),
    "atan2_exponents": ("atan2((double)rw_y(given[i]), (double)rw_x(given[i]))", 1.5),
    "atan2_one": ("atan2(x, 0.75)", 1.5),
    "atan2_under": ("atan2(-0.75, x)", 1.5),
}
EXTRA = """
static float rw_elu_one(float x) { return rw_elu(x, 1.0f); }
static uint32_t rw_mixed(uint32_t bits)
{
    bits = (bits ^ (bits >> 16)) * 0x85ebca6bu;
    bits = (bits ^ (bits >> 13)) * 0xc2b2ae35u;
    return bits ^ (bits >> 16);
}
/* Another float for each: the bits of the first, mixed. */
static float rw_second(float x) { return rw_bits_float(rw_mixed(rw_float_bits(x) + 0x9e3779b9u)); }
/* A pair for each: 14 bits choose its mantissas, two its signs, eight the exponent of each. */
static uint32_t rw_mantissa(uint32_t bits, uint32_t place, uint32_t salt)
{
    static const uint32_t ends[3] = {0u, 1u, 0x7fffffu};
    return (bits >> 18) < 9u ? ends[place % 3u] : rw_mixed(bits + salt) & 0x7fffffu;
}
static float rw_y(float chosen)
{
    const uint32_t bits = rw_float_bits(chosen);
    return rw_bits_float((bits & 1u) << 31 | (bits >> 2 & 0xffu) << 23
        | rw_mantissa(bits, bits >> 18, 0x9e3779b9u));
}
static float rw_x(float chosen)
{
    const uint32_t bits = rw_float_bits(chosen);
    return rw_bits_float((bits >> 1 & 1u) << 31 | (bits >> 10 & 0xffu) << 23
        | rw_mantissa(bits, (bits >> 18) / 3u, 0x7f4a7c15u));
}
static float rw_atan2_exponents(float chosen) { return rw_atan2(rw_y(chosen), rw_x(chosen)); }
static float rw_atan2_pairs(float x) { return rw_atan2(x, rw_second(x)); }
static float rw_atan2_one(float x) { return rw_atan2(x, 0.75f); }
static float rw_atan2_under(float x) { return rw_atan2(-0.75f, x); }

"""
DRIVER = """
enum { BLOCK = 4096 };
static float given[BLOCK], got[BLOCK];
static double want[BLOCK];

int main(int count, char **words) {
    uint64_t from = strtoull(words[1], 0, 10), to = strtoull(words[2], 0, 10);
    uint64_t step = strtoull(words[3], 0, 10), bits, other = 0;
    double worst = 0.5; float at = 0, other_at = 0;
    int i, n;
    (void)count;
    for (bits = from; bits < to; bits += step * BLOCK) {
        n = (to - bits + step - 1) / step < BLOCK ? (int)((to - bits + step - 1) / step) : BLOCK;
        for (i = 0; i < n; i++) { given[i] = rw_bits_float((uint32_t)(bits + step * (uint64_t)i)); }
        /* Vectors of the C library's own functions in double, right to a few units there. */
        _Pragma("omp simd")
        for (i = 0; i < n; i++) { const double x = (double)given[i]; want[i] = REFERENCE; }
        for (i = 0; i < n; i++) { got[i] = rw_FUNCTION(given[i]); }
        for (i = 0; i < n; i++) {
            const float near = (float)want[i];
            int exponent;
            double gap;
            if (got[i] == near) { /* the nearest float: half a unit at most */
                if (near == 0 && signbit(got[i]) != signbit(near)) { other++; other_at = given[i]; }
                continue;
            }
            if (isnan(got[i]) || isnan(near)) {
                if (isnan(got[i]) != isnan(near)) { other++; other_at = given[i]; }
                continue;
            }
            if (isinf(got[i]) || isinf(near)) {
                /* Within half a step of the end of the range either is right. */
                const int end = fabs(want[i]) > 3.4028233e38 && fabs(want[i]) < 3.402824e38;
                if (!end) { other++; other_at = given[i]; }
                continue;
            }
            frexp(want[i], &exponent);
            gap = fabs((double)got[i] - want[i]);
            gap /= ldexp(1.0, (exponent < -125 ? -125 : exponent) - 24);
            if (gap > worst) { worst = gap; at = given[i]; }
        }
    }
    printf("%.6f %a %llu %a\\n", worst, at, (unsigned long long)other, other_at);
    return 0;
}
"""
HEAD = "#include <math.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n"


def program(name: str) -> str:
    """The C that compares one function."""
    text = resources.files("roadworthy.targets.c.library").joinpath("math.c").read_text()
    reference = FUNCTIONS[name][0]
    return f"{HEAD}{text}{EXTRA}{DRIVER.replace('FUNCTION', name).replace('REFERENCE', reference)}"


def compiled(name: str, folder: Path) -> Path:
    source, made = folder / f"{name}.c", folder / name
    source.write_text(program(name))
    # OpenMP for its vectors alone: everything runs on one thread.
    flags = ["-O3", "-march=native", "-ffp-contract=off", "-fno-trapping-math", "-fno-math-errno"]
    flags += ["-fopenmp", "-w"]
    subprocess.run(["cc", *flags, str(source), "-o", str(made), "-lm"], check=True)
    return made


def worst(made: Path, step: int, parts: int = 1) -> dict[str, float | int | str]:
    """The worst of all floats, or of every `step`-th."""
    edges = [(2**32 * part // parts) // step * step for part in range(parts)] + [2**32]
    with ThreadPoolExecutor(parts) as pool:
        runs = list(
            pool.map(
                lambda part: subprocess.run(
                    [made, str(edges[part]), str(edges[part + 1]), str(step)],
                    capture_output=True, text=True, check=True,
                ).stdout.split(),
                range(parts),
            )
        )  # fmt: skip
    top = max(runs, key=lambda words: float(words[0]))
    wrong = [words for words in runs if int(words[2])]
    return {
        "ulp": float(top[0]), "at": top[1], "other_class": sum(int(words[2]) for words in wrong),
        **({"other_class_at": wrong[0][3]} if wrong else {}),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--parts", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", nargs="*", default=list(FUNCTIONS))
    parser.add_argument("--out", type=Path, default=machine.RESULTS / "c_math.json")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    results = json.loads(chosen.out.read_text())["functions"] if chosen.out.is_file() else {}
    try:
        for name in chosen.only:
            results[name] = worst(compiled(name, folder), chosen.step, chosen.parts)
            results[name]["bound"] = FUNCTIONS[name][1]
            print(f"{name:12s} {results[name]}", flush=True)
            if chosen.step == 1:
                listed = {each: results[each] for each in FUNCTIONS if each in results}
                machine.write(chosen.out, {"functions": listed})
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
