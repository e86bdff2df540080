"""The files of the target c: policy.h, policy.c, selftest.c and CMakeLists.txt, as texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from roadworthy.spec.port import BATCH, Memory, Port
from roadworthy.targets.c.constants import literal
from roadworthy.targets.c.folder.interface import Interface
from roadworthy.targets.c.source import ABI, HEAD, body, work_struct


def _said(text: object) -> str:
    """Words of a user inside a comment: one line, nothing that could end it."""
    # First the signs that become others: what they become could end it, too.
    plain = re.sub(r"[^\x20-\x7e]", "?", str(text)).replace("\\", "/")
    return re.sub(r"\*(?=/)|/(?=\*)|\?(?=\?)", r"\g<0> ", plain)[:200]


def _dims(shape: Sequence[int | str]) -> str:
    return (
        "".join(f"[{'POLICY_ROWS' if each == BATCH else max(int(each), 1)}]" for each in shape)
        or "[1]"
    )


_STEP = (
    "void policy_step(policy_state *state, const policy_inputs *inputs,\n"
    "    policy_outputs *outputs)"
)


# ---------------------------------------------------------------------- policy.h
def header(own: Interface) -> str:
    signature = own.signature
    period = f"{signature.period_s!r}" if signature.period_s else "0.0"
    rows = own.fixed or 1
    lines = [
        "/* A policy, written by Roadworthy. Link policy.c; C99 and libm are all it needs.",
        " *",
        " *     static policy_state state;",
        " *     policy_init(&state);",
        " *     for (;;) { ...; policy_step(&state, &inputs, &outputs); ... }",
        " *",
        " * One call is one tick. No allocation, no globals but constants."
        + "".join(f" {_said(name)} = {size}." for name, size in own.sizes.items())
        + " */",
        f"#if defined(POLICY_H) && POLICY_ID != 0x{own.identity}",
        '#error "two policies in one file: roadworthy c FOLDER -o OUT --name NAME"',
        "#endif",
        "#ifndef POLICY_H", "#define POLICY_H", f"#define POLICY_ID 0x{own.identity}", "",
        "#include <stddef.h>", "#include <stdint.h>", "",
        f"#define POLICY_ABI {ABI}",
        f'#define POLICY_ONNX_SHA256 "{own.digest}"',
        f'#define POLICY_WEIGHTS "{own.weights}" /* how they are stored; sums are floats */',
        f"#define POLICY_PERIOD_S {period} /* 0 where nobody said */",
        f"#define POLICY_DECIMATION {signature.decimation} /* it decides at every so many ticks */",
    ]  # fmt: skip
    if own.fixed:
        lines += [
            "#ifndef POLICY_ROWS",
            f"#define POLICY_ROWS {rows} /* as exported */",
            "#endif",
            f"#if POLICY_ROWS != {rows}",
            f'#error "POLICY_ROWS is {rows}, as exported"',
            "#endif",
        ]
    else:
        lines += [
            "#ifndef POLICY_ROWS",
            "#define POLICY_ROWS 1 /* robots side by side */",
            "#endif",
            "#if POLICY_ROWS < 1",
            '#error "POLICY_ROWS is the number of robots: 1 or more"',
            "#endif",
        ]
    lines += [
        "/* Links with this very policy, compiled for as many rows: other structs differ. */",
        "#define RW_JOINED(name, rows) name##_rows_##rows",
        "#define RW_JOIN(name, rows) RW_JOINED(name, rows)",
        f"#define policy_init RW_JOIN({own.init}, POLICY_ROWS)",
    ]
    lines += [
        f"#define POLICY_{own.names[port.name].upper()}_SIZE {own.place(port.name).size}"
        for port in (*signature.inputs, *signature.outputs)
    ]
    lines += ["", "#ifdef __cplusplus", 'extern "C" {', "#endif", "", "typedef struct {"]
    for port in signature.inputs:
        lines += _member(own, port)
    lines += ["} policy_inputs;", "", "typedef struct {"]
    for port in signature.outputs:
        lines += _member(own, port)
    lines += ["} policy_outputs;", "", "/* What a step keeps while it runs. */", "typedef struct {"]
    lines += [*work_struct(own.code), "} policy_work;", ""]
    lines += [
        "/* What is remembered from one step to the next, and room to work in. */",
        "typedef struct {",
    ]
    for memory in signature.memory:
        kind, dims = own.place(memory.input).kind, _dims(memory.shape)
        lines += [
            f"    {kind} {own.names[memory.input]}{dims};",
            f"    {kind} {own.names[memory.output]}{dims};",
        ]
    lines += ["    int32_t tick;", "    policy_work work;", "} policy_state;", ""]
    lines += [
        "/* The state as it is before the first step. */",
        "void policy_init(policy_state *state);",
        "/* Memory and clock back to where they start. */",
        "void policy_reset(policy_state *state);",
        "/* One tick: reads inputs, writes outputs, moves the memory on. */",
        f"{_STEP};",
        "",
        "/* For other languages: addresses of inputs, outputs, a policy_work. */",
        "void policy_run(void *const *places, int rows);",
        "size_t policy_work_size(void);",
        "", "#ifdef __cplusplus", "}", "#endif", "", "#endif", "",
    ]  # fmt: skip
    return "\n".join(lines)


def _member(own: Interface, port: Port) -> Iterator[str]:
    about = port.about
    words = [_said(about.description)] if about.description else []
    words += [f"[{_said(about.unit)}]"] if about.unit else []
    if about.low is not None or about.high is not None:
        words.append(f"from {_said(about.low)} to {_said(about.high)}")
    words += [f"elements: {_said(', '.join(map(str, about.elements)))}"] if about.elements else []
    words += [f"noise: {about.noise}, drawn anew for each step"] if about.noise else []
    words += ["half floats, as their bits"] if port.dtype == "float16" else []
    if words:
        yield f"    /* {'; '.join(words)} */"
    yield f"    {own.place(port.name).kind} {own.names[port.name]}{_dims(port.shape)};"


# ---------------------------------------------------------------------- policy.c
def source(own: Interface) -> str:
    signature = own.signature
    lines = [
        "/* Written by Roadworthy: do not edit. Flags that it likes: -O3 -fno-trapping-math. */",
        '#include "policy.h"', "", HEAD,
        "size_t policy_work_size(void)", "{", "    return sizeof(policy_work);", "}", "",
        *body(own.code, handed=False), "",
        "void policy_init(policy_state *state)", "{",
        "    memset(state, 0, sizeof *state);", "    policy_reset(state);", "}", "",
        "void policy_reset(policy_state *state)", "{",
    ]  # fmt: skip
    for memory in signature.memory:
        lines += _initial(own, memory)
    lines += ["    state->tick = 0;", "}", ""]
    lines += [_STEP, "{"]
    # Inputs are only read: const is taken off by a way that no compiler warns of.
    members = {port.name: f"(uintptr_t)inputs->{own.names[port.name]}" for port in signature.inputs}
    members |= {port.name: f"outputs->{own.names[port.name]}" for port in signature.outputs}
    for memory in signature.memory:
        members[memory.input] = f"state->{own.names[memory.input]}"
        members[memory.output] = f"state->{own.names[memory.output]}"
    if signature.clock:
        members[signature.clock] = "&state->tick"
    count = len(own.names) + 1
    lines += [f"    void *places[{count}];"]
    for number, name in enumerate(own.names):
        lines += [f"    places[{number}] = (void *){members[name]};"]
    lines += [f"    places[{count - 1}] = &state->work;"]
    lines += [f"    policy_run(places, {'1' if own.fixed else 'POLICY_ROWS'});"]
    for memory in signature.memory:
        there, here = members[memory.input], members[memory.output]
        lines += [f"    memcpy({there}, {here}, sizeof {there});"]
    if signature.clock:
        lines += ["    state->tick = (state->tick + 1) % POLICY_DECIMATION;"]
    if not signature.inputs:
        lines += ["    (void)inputs;"]
    # Last: a port may be called as the function is, and is what the header made of its name.
    lines += [
        "}", "",
        "/* By its plain name too, for other languages. */", "#undef policy_init",
        "void policy_init(policy_state *state);", "void policy_init(policy_state *state)", "{",
        f"    RW_JOIN({own.init}, POLICY_ROWS)(state);", "}", "",
    ]  # fmt: skip
    return "\n".join(lines)


def _initial(own: Interface, memory: Memory) -> Iterator[str]:
    place = own.place(memory.input)
    row = memory.fresh(1).ravel()
    member = f"state->{own.names[memory.input]}"
    rows = "POLICY_ROWS" if place.batched else "1"
    words = [_word(each, memory.dtype) for each in row]
    yield "    {"
    if len(set(words)) == 1:
        yield f"        {place.kind} *const at = ({place.kind} *){member};"
        yield f"        for (int i = 0; i < {place.size} * {rows}; i++) {{"
        yield f"            at[i] = {words[0]};"
    else:
        yield f"        static const {place.kind} start[{place.size}] = {{"
        yield f"            {', '.join(words)}"
        yield "        };"
        yield f"        {place.kind} *const at = ({place.kind} *){member};"
        yield f"        for (int i = 0; i < {place.size} * {rows}; i++) {{"
        inner = place.inner
        yield f"            at[i] = start[i / ({inner} * {rows}) * {inner} + i % {inner}];"
    yield "        }"
    yield "    }"


def _word(number: np.generic, dtype: str) -> str:
    return str(int(number.view(np.uint16))) if dtype == "float16" else literal(number)


# ---------------------------------------------------------------------- CMakeLists.txt
CMAKE = """\
# The policy as a library, and its self-test. Built outside of a bundle, whose files are listed:
#     cmake -S . -B ../../build && cmake --build ../../build && cd ../../build && ctest
cmake_minimum_required(VERSION 3.10)
project(policy C)
set(CMAKE_C_STANDARD 99)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
option(POLICY_FAST "let the compiler use fused multiply-add: faster, other last bits" OFF)
add_library(policy policy.c)
target_include_directories(policy PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
if(POLICY_FAST)
  target_compile_definitions(policy PRIVATE POLICY_FAST)
endif()
if(NOT MSVC)
  target_compile_options(policy PRIVATE -O3 -fno-trapping-math)
  target_link_libraries(policy PUBLIC m)
endif()
"""
ROWS = """\
set(POLICY_ROWS 1 CACHE STRING "robots side by side, here and in every program that links it")
target_compile_definitions(policy PUBLIC POLICY_ROWS=${POLICY_ROWS})
if(NOT POLICY_ROWS EQUAL 1)
  return() # the self-test is of one
endif()
"""
TESTED = """\
add_executable(selftest selftest.c)
target_link_libraries(selftest policy)
enable_testing()
add_test(NAME selftest COMMAND selftest)
"""


def written(own: Interface) -> dict[str, str]:
    """Name → text of every file but the self-test, which needs the trace."""
    cmake = CMAKE + ("" if own.fixed else ROWS) + TESTED
    return {"policy.c": source(own), "policy.h": header(own), "CMakeLists.txt": cmake}
