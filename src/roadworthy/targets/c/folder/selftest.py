"""selftest.c: the golden trace as data, and a loop that compares."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from roadworthy.spec.port import Array, Port
from roadworthy.spec.tolerance import gaps
from roadworthy.spec.trace import Trace, exponents
from roadworthy.targets.c.constants import literal
from roadworthy.targets.c.folder.interface import Interface

# Steps are left out beyond this many numbers: the test must fit beside the policy.
MOST_NUMBERS = 200_000


def selftest(own: Interface, trace: Trace) -> str:
    """The text of selftest.c: exit code 0 where every output is within its tolerance."""
    signature = own.signature
    ports = [*signature.inputs, *signature.outputs]
    columns = {port.name: _rows(port, _values(trace, port), trace.rows, own) for port in ports}
    width = sum(array.shape[1] * array.shape[2] for array in columns.values())
    steps = max(1, min(trace.steps, MOST_NUMBERS // max(width, 1)))
    rows = 1 if own.fixed else trace.rows
    lines = [
        "/* The policy beside what the original did: 0 where they agree, else 1. */",
        '#include "policy.h"', "",
        "#include <math.h>", "#include <stdio.h>", "#include <string.h>", "",
        "#if POLICY_ROWS != " + str(own.fixed or 1),
        '#error "compile the self-test without POLICY_ROWS"', "#endif", "",
        f"#define STEPS {steps}", f"#define ROWS {rows}", "",
    ]  # fmt: skip
    for port in ports:
        lines += _data(own, port, columns[port.name][:steps])
    for port in signature.outputs:
        lines += _allowed(own, port, trace, steps)
    resets = trace.resets[:steps]
    flags: Array = np.asarray(resets.all(axis=1, keepdims=True) if own.fixed else resets, np.uint8)
    lines += [
        "static const uint8_t resets[STEPS][ROWS] = {",
        *_lines(flags),
        "};",
        "",
    ]
    lines += [*_HALF, ""] if any(port.dtype == "float16" for port in signature.outputs) else []
    lines += [
        "static policy_state states[ROWS];", "static policy_inputs inputs;",
        "static policy_outputs outputs;", "",
        "static double worst = 0.0;", "static int failed = 0;", "",
        "/* Within a power of two; at -128 equal, at 127 a choice that rounding may turn. */",
        "static void compare(double got, double wanted, int exponent)", "{",
        "    const int same = got == wanted || (got != got && wanted != wanted);",
        "    const double gap = same ? 0.0 : fabs(got - wanted);",
        "    const double allowed = exponent == -128 ? 0.0 : ldexp(1.0, exponent);",
        "    if (exponent != 127 && !(gap <= allowed)) {", "        failed++;", "    }",
        "    if (exponent != 127 && gap > worst) {", "        worst = gap;", "    }", "}", "",
        "int main(void)", "{", "    int step, row, i;",
        "    for (row = 0; row < ROWS; row++) {", "        policy_init(&states[row]);", "    }",
        "    for (step = 0; step < STEPS; step++) {",
        "        for (row = 0; row < ROWS; row++) {",
        "            if (resets[step][row]) {",
        "                policy_reset(&states[row]);", "            }",
    ]  # fmt: skip
    for port in signature.inputs:
        name = own.names[port.name]
        lines += [
            f"            memcpy(inputs.{name}, golden_{name}[step][row], sizeof inputs.{name});"
        ]
    lines += ["            policy_step(&states[row], &inputs, &outputs);"]
    for port in signature.outputs:
        name, size = own.names[port.name], columns[port.name].shape[2]
        kind = own.place(port.name).kind
        read = "half_value(got[i])" if port.dtype == "float16" else "(double)got[i]"
        want = read.replace("got[i]", f"golden_{name}[step][row][i]")
        lines += [
            "            {",
            f"                const {kind} *const got = (const {kind} *)outputs.{name};",
            f"                for (i = 0; i < {size}; i++) {{",
            f"                    compare({read}, {want}, allowed_{name}[step][row][i]);",
            "                }", "            }",
        ]  # fmt: skip
    lines += [
        "        }", "    }",
        '    printf("%d steps, %d rows, worst difference %.3g, %d values beyond tolerance\\n",',
        "        STEPS, ROWS, worst, failed);",
        "    return failed != 0;", "}", "",
    ]  # fmt: skip
    return "\n".join(lines)


_HALF = (
    "static double half_value(uint16_t half)", "{",
    "    const int exponent = (half >> 10) & 31, rest = half & 1023;",
    "    const double size = exponent == 31 ? (rest ? NAN : HUGE_VAL)",
    "        : exponent ? ldexp(1024.0 + rest, exponent - 25) : ldexp((double)rest, -24);",
    "    return half & 0x8000 ? -size : size;", "}",
)  # fmt: skip


def _values(trace: Trace, port: Port) -> Array:
    return trace.inputs[port.name] if port.name in trace.inputs else trace.outputs[port.name]


def _rows(port: Port, array: Array, rows: int, own: Interface) -> Array:
    """(steps, rows, elements of one row), or one row of all where their number is fixed."""
    if own.fixed:
        return array.reshape(len(array), 1, -1)
    if port.batch_axis is None:
        return np.repeat(array.reshape(len(array), 1, -1), rows, axis=1)
    return np.moveaxis(array, port.batch_axis + 1, 1).reshape(len(array), rows, -1)


def _allowed(own: Interface, port: Port, trace: Trace, steps: int) -> Iterator[str]:
    """How far each recorded output may be off: what was measured, or else what its dtype allows."""
    wanted = trace.outputs[port.name]
    within = trace.allowed.get(port.name)
    if within is None:
        within = gaps(wanted, wanted, rows_at=1 + (port.batch_axis or 0))[1]
    stored = _rows(port, exponents(within), trace.rows, own)[:steps]
    name = own.names[port.name]
    yield f"static const int8_t allowed_{name}[STEPS][ROWS][{max(stored.shape[2], 1)}] = {{"
    yield from _lines(stored)
    yield "};"
    yield ""


def _data(own: Interface, port: Port, array: Array) -> Iterator[str]:
    kind, name = own.place(port.name).kind, own.names[port.name]
    yield f"static const {kind} golden_{name}[STEPS][ROWS][{max(array.shape[2], 1)}] = {{"
    yield from _lines(array.view(np.uint16) if port.dtype == "float16" else array)
    yield "};"
    yield ""


def _lines(array: Array) -> Iterator[str]:
    """Nested braces, one line for each row of a step."""
    for step in array:
        rows = [step[row].ravel() for row in range(len(step))]
        if step.ndim == 1:
            yield "{" + ",".join(literal(each) for each in step) + "},"
        else:
            yield (
                "{"
                + ",\n".join("{" + ",".join(literal(each) for each in row) + "}" for row in rows)
                + "},"
            )
