"""The whole of policy.c: what was lowered as text, and the constants beside it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from roadworthy.spec.onnx_graph import Declared, Graph
from roadworthy.spec.port import BATCH, Array
from roadworthy.targets.c import kernels, library
from roadworthy.targets.c.constants import HANDED, SHORT, declared
from roadworthy.targets.c.elementwise import C_TYPES
from roadworthy.targets.c.kernels.dense import TURN
from roadworthy.targets.c.kernels.panels import PANELS, Panels, Storage
from roadworthy.targets.c.lowering import Lowered, lowered
from roadworthy.targets.c.operators import OPERATORS
from roadworthy.targets.c.planning import planned
from roadworthy.targets.c.render import Writer

ABI = 1
_NAME = re.compile(r"\W+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Place:
    """A port of the graph in C: its name, and how the elements of one row lie in it.

    outer, inner  how many elements come before and behind the batch axis
    batched       whether there is such an axis
    """

    name: str
    dtype: str
    outer: int
    inner: int
    batched: bool

    @property
    def kind(self) -> str:
        return "uint16_t" if self.dtype == "float16" else C_TYPES[self.dtype]

    @property
    def size(self) -> int:
        """Elements of one row, or of all where rows have no axis."""
        return self.outer * self.inner


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Code:
    """A graph in C.

    inputs, outputs  its ports, in the order in which `policy_run` takes their addresses
    work             C type → elements of the work area
    constants        C type → numbers
    functions        the C that it calls
    step             the lines of its body
    panels           columns that lie side by side in the weights
    """

    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    work: Mapping[str, int]
    constants: Mapping[str, Array] = field(repr=False)
    functions: tuple[str, ...] = field(repr=False)
    step: tuple[str, ...] = field(repr=False)
    panels: Panels = PANELS


def code(
    graph: Graph, dims: Mapping[str, int], weights: Storage = "float32", panels: Panels = PANELS
) -> Code:
    """The graph for one row, at given sizes of its other symbolic axes; `weights` are stored so.

    How wide the panels of the weights are changes the speed and not a bit of a result.
    """
    sizes = {**dims, BATCH: 1}
    found: Lowered = lowered(graph, OPERATORS, sizes, weights, panels)
    taken: set[str] = set()
    inputs = [_place(each, sizes, "in", taken) for each in graph.inputs]
    outputs = [_place(each, sizes, "out", taken) for each in graph.outputs]
    names = {
        id(buffer): place.name
        for buffer, place in zip((*found.inputs, *found.outputs), (*inputs, *outputs), strict=True)
    }
    plan = planned(found.statements)
    writer = Writer(plan, names)
    step = tuple(writer.lines(found.statements))
    text = "\n".join(step)
    known = {**library.functions("math.c"), **kernels.functions()}
    return Code(
        inputs=tuple(inputs), outputs=tuple(outputs), work=plan.sizes,
        constants=writer.constants.arrays(), step=step,
        functions=tuple(library.called(text, known)), panels=panels,
    )  # fmt: skip


def _place(port: Declared, dims: Mapping[str, int], side: str, taken: set[str]) -> Place:
    sizes = [dims[each] if isinstance(each, str) else each for each in port.shape]
    axis = port.shape.index(BATCH) if BATCH in port.shape else 0
    return Place(
        name=unique(f"{side}_{_NAME.sub('_', port.name)}", taken), dtype=port.dtype,
        outer=math.prod(sizes[:axis]), inner=math.prod(sizes[axis:]), batched=BATCH in port.shape,
    )  # fmt: skip


def unique(base: str, taken: set[str]) -> str:
    """A name that is not taken, and is from now on: the base, or one with a number behind it.

    In capitals too, for the macros that are called after it.
    """
    own, number = base, 2
    while own.upper() in taken:
        own, number = f"{base}_{number}", number + 1
    taken.add(own.upper())
    return own


HEAD, VECTORS = library.text("head.c"), library.text("vectors.c")


def widths(panels: Panels) -> str:
    return f"#define RW_COLUMNS {panels.vector}\n#define RW_PANEL {panels.matrix}"


def body(given: Code, *, handed: bool) -> Iterator[str]:
    """The lines of policy.c behind its head; constants are in it, or handed over by the caller."""
    text = "\n".join(given.functions)
    if "rw_vec" in text:
        yield widths(given.panels)
        yield VECTORS
    for kind, array in given.constants.items():
        if kind in HANDED and handed:
            continue
        yield from declared(kind, array)
    for each in given.functions:
        yield from (each, "")
    yield from _step(given)
    yield from _run(given, handed=handed)


def work_struct(given: Code) -> list[str]:
    """The members of the work area: what a step keeps while it runs, and no longer."""
    members = [f"    {kind} {SHORT[kind]}[{size}];" for kind, size in given.work.items() if size]
    members += [
        f"    {place.kind} row_{place.name}[{place.size}];"
        for place in (*given.inputs, *given.outputs)
        if _scattered(place)
    ]
    if _turns(given):
        members += [
            "    /* Whether large weights are read from their end: a matter of speed alone. */"
        ]
        members += ["    int back;"]
    return members or ["    char nothing;"]


def _turns(given: Code) -> bool:
    return any(TURN in line for line in given.step)


def _scattered(place: Place) -> bool:
    """Whether the elements of a row are apart where there are several rows."""
    return place.batched and place.outer > 1


def _step(given: Code) -> Iterator[str]:
    yield "/* One row. */"
    arguments = [f"const {place.kind} *restrict {place.name}" for place in given.inputs]
    arguments += [f"{place.kind} *restrict {place.name}" for place in given.outputs]
    arguments.append("policy_work *restrict work")
    arguments += [f"const {kind} *restrict c{SHORT[kind]}" for kind in given.constants]
    yield "static void rw_step(" + ",\n    ".join(arguments) + ")"
    yield "{"
    for kind, size in given.work.items():
        if size:
            yield f"    {kind} *const {SHORT[kind]} = work->{SHORT[kind]};"
    used = {name for line in given.step for name in re.findall(r"\w+", line)}
    for name in (*(p.name for p in given.inputs), *(f"c{SHORT[kind]}" for kind in given.constants)):
        if name not in used:
            yield f"    (void){name};"
    if not given.work:
        yield "    (void)work;"
    yield from given.step
    yield "}"
    yield ""


def _run(given: Code, *, handed: bool) -> Iterator[str]:
    """`policy_run`: addresses of ports, work area and handed constants in one list; any rows."""
    places = (*given.inputs, *given.outputs)
    yield "void policy_run(void *const *places, int rows)"
    yield "{"
    yield f"    policy_work *const work = (policy_work *)places[{len(places)}];"
    yield "    for (int row = 0; row < rows; row++) {"
    arguments = []
    for number, place in enumerate(places):
        const = "const " if place in given.inputs else ""
        whole = f"({const}{place.kind} *)places[{number}]"
        if _scattered(place):
            if place in given.inputs:
                yield from _copied(place, f"work->row_{place.name}", whole, gather=True)
            arguments.append(f"work->row_{place.name}")
        elif place.batched:
            arguments.append(f"{whole} + row * {place.inner}")
        else:
            arguments.append(whole)
    arguments.append("work")
    held = len(places) + 1
    for kind in given.constants:
        name = f"c{SHORT[kind]}"
        if kind in HANDED and handed:
            arguments.append(f"(const {kind} *)places[{held}]")
            held += 1
        else:
            arguments.append(f"rw_{name}.values" if kind in HANDED else f"rw_{name}")
    yield "        rw_step(" + ",\n            ".join(arguments) + ");"
    for number, place in enumerate(places):
        if _scattered(place) and place in given.outputs:
            whole = f"({place.kind} *)places[{number}]"
            yield from _copied(place, f"work->row_{place.name}", whole, gather=False)
    if _turns(given):
        yield f"        {TURN} = !{TURN};"
    yield "    }"
    yield "}"


def _copied(place: Place, row: str, whole: str, *, gather: bool) -> Iterator[str]:
    """One row out of an array whose rows are apart, or back into it."""
    ends = (f"{row} + i * {place.inner}", f"{whole} + (i * rows + row) * {place.inner}")
    target, source = ends if gather else reversed(ends)
    yield f"        for (int i = 0; i < {place.outer}; i++) {{"
    yield f"            memcpy({target},"
    yield f"                {source},"
    yield f"                sizeof({place.kind}) * {place.inner});"
    yield "        }"


def engine_source(given: Code) -> str:
    """A file for this machine alone: `policy_run` over constants that the caller holds."""
    lines = [
        HEAD, "typedef struct {", *work_struct(given), "} policy_work;", "",
        "void policy_run(void *const *places, int rows);", "size_t policy_work_size(void);", "",
        "size_t policy_work_size(void)", "{", "    return sizeof(policy_work);", "}", "",
        *body(given, handed=True), "",
    ]  # fmt: skip
    return "\n".join(lines)
