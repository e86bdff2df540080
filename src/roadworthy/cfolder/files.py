"""The files of the target c: policy.h, policy.c, selftest.c and CMakeLists.txt, as texts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from roadworthy.cfile.constants import literal
from roadworthy.cfile.kernels.panels import Storage
from roadworthy.cfile.lowering import Unsupported
from roadworthy.cfile.source import ABI, HEAD, Code, Place, body, code, unique, work_struct
from roadworthy.onnxgraph.graph import read
from roadworthy.spec.port import BATCH, Memory, Port
from roadworthy.spec.signature import Signature

# Of C and C++, macros of their compilers and systems, and members that the structs have anyway.
_WORDS = frozenset((
    "alignas", "alignof", "and", "asm", "auto", "bool", "break", "case", "catch", "char",
    "class", "compl", "concept", "const", "constexpr", "continue", "decltype", "default",
    "delete", "do", "double", "else", "enum", "export", "extern", "false", "float", "for",
    "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new",
    "noexcept", "not", "nullptr", "operator", "or", "private", "protected", "public",
    "register", "reinterpret_cast", "requires", "restrict", "return", "short", "signed",
    "sizeof", "static", "struct", "switch", "template", "this", "throw", "tick", "true",
    "try", "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual", "void",
    "volatile", "wchar_t", "while", "work", "xor",
    "errno", "far", "i386", "interface", "linux", "mips", "near", "small", "sparc", "stderr",
    "stdin", "stdout", "unix",
))  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Interface:
    """A policy in C as its user sees it: names of ports and memory, beside the code behind them."""

    signature: Signature
    code: Code
    digest: str
    names: Mapping[str, str]
    weights: Storage

    def place(self, name: str) -> Place:
        """The port of the graph with a name of the signature."""
        return (*self.code.inputs, *self.code.outputs)[list(self.names).index(name)]

    @property
    def init(self) -> str:
        """What `policy_init` is called where files are linked, before the rows."""
        return f"policy_init_{self.digest[:8]}"

    @property
    def fixed(self) -> int | None:
        return self.signature.fixed_rows


def interface(model: bytes, signature: Signature, *, weights: Storage = "float32") -> Interface:
    """The C of an ONNX file, or an error that names what C cannot be written for."""
    others = [name for name in signature.symbols if name != BATCH]
    if others:
        raise Unsupported(
            f"the size of {', '.join(map(repr, others))} is open, and C is written for fixed sizes",
            hint="export without dynamic=…; rw.load(folder, engine='c') compiles for each size",
        )
    graph = read(model)
    listed = [each.name for each in (*graph.inputs, *graph.outputs)]
    taken: set[str] = set()
    names = {name: _identifier(name, taken) for name in listed}
    return Interface(
        signature=signature, code=code(graph, {}, weights), names=names, weights=weights,
        digest=hashlib.sha256(model).hexdigest(),
    )  # fmt: skip


def _identifier(name: str, taken: set[str]) -> str:
    base = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "port"
    # Names in capitals are macros, of <math.h> or of somebody's board.
    is_macro = base == base.upper() and (len(base) > 1 or base == "I")
    base = f"{base}_" if base in _WORDS or base[0].isdigit() or is_macro else base
    return unique(f"p{base}" if base[0].isdigit() else base, taken)


def _said(text: object) -> str:
    """Words of a user inside a comment: one line, nothing that could end it."""
    plain = re.sub(r"[^\x20-\x7e]", "?", str(text)).replace("*/", "* /").replace("/*", "/ *")
    return plain.replace("\\", "/").replace("??", "? ?")[:200]


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
        " * One call is one tick. No allocation, no globals but constants. */",
        f"#if defined(POLICY_H) && POLICY_ID != 0x{own.digest[:8]}",
        '#error "two policies in one file: roadworthy c FOLDER -o OUT --name NAME"',
        "#endif",
        "#ifndef POLICY_H", "#define POLICY_H", f"#define POLICY_ID 0x{own.digest[:8]}", "",
        "#include <stddef.h>", "#include <stdint.h>", "",
        f"#define POLICY_ABI {ABI}",
        f'#define POLICY_ONNX_SHA256 "{own.digest}"',
        f'#define POLICY_WEIGHTS "{own.weights}" /* how they are stored; sums are floats */',
        f"#define POLICY_PERIOD_S {period} /* 0 where nobody said */",
        f"#define POLICY_DECIMATION {signature.decimation} /* it decides at every so many ticks */",
    ]  # fmt: skip
    if own.fixed:
        lines += [f"#define POLICY_ROWS {rows} /* as exported */"]
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
        "/* By its plain name too, for other languages. */", "#undef policy_init",
        "void policy_init(policy_state *state);", "void policy_init(policy_state *state)", "{",
        f"    RW_JOIN({own.init}, POLICY_ROWS)(state);", "}", "",
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
    return "\n".join([*lines, "}", ""])


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
