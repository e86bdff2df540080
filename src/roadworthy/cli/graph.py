"""`roadworthy inspect --graph` and `--operators`: a graph in readable form, what it is made of."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from roadworthy.cli.console import out, print_json, table
from roadworthy.errors import UsageError
from roadworthy.runtime import engines
from roadworthy.runtime.archive import STEP
from roadworthy.runtime.load import engine_of
from roadworthy.spec import targets
from roadworthy.spec.bundle import POLICY, Bundle
from roadworthy.spec.port import shape_text
from roadworthy.targets.onnx.operators import (
    dtype_name,
    first_precision_change,
    inferred,
    operators,
    port_dtypes,
)

# What shows the graph of a target in a bundle; code is opened with trust only.
Show = Callable[..., Iterable[str]]


def show_graph(
    path: Path, bundle: Bundle | None, target: str | None, *, trust: bool, as_json: bool
) -> None:
    """Prints the graph of a bundle's target, or of a lone ONNX file, line by line."""
    lines = _graph_lines(path, bundle, target, trust=trust)
    if as_json:
        print_json({"graph": lines})
    else:
        sys.stdout.write("\n".join(lines) + "\n")


def _graph_lines(
    path: Path, bundle: Bundle | None, target: str | None, *, trust: bool
) -> list[str]:
    if bundle is None:
        if path.suffix == ".pt2" or target not in (None, "onnx"):
            raise UsageError(
                f"{path} is not a bundle folder", hint="pass the folder that the file is in"
            )
        return list(_model_lines(path.read_bytes()))
    chosen = engines.chosen(
        target or next(iter(bundle.targets)), tuple(bundle.targets), where=str(path)
    )
    show = targets.get(chosen).graph
    if not show:
        raise UsageError(
            f"{chosen} is machine code, which has no graph to show",
            hint=f"export with targets=[{targets.DEFAULT!r}, {chosen!r}] and look at the first: "
            f"--target {targets.DEFAULT}",
        )
    return list(cast("Show", targets.imported(show))(bundle, trust=trust))


def onnx_lines(bundle: Bundle, *, trust: bool) -> Iterator[str]:
    """The ports, weights and nodes of the ONNX file. It is data: trust changes nothing."""
    return _model_lines(bundle.files[POLICY])


def torch_export_lines(bundle: Bundle, *, trust: bool) -> Iterator[str]:
    """The Python code of each captured graph."""
    engine: Any = engine_of(bundle, "torch_export", trust=trust)
    for name, program in engine.programs.items():
        yield from [] if name == STEP else ["", f"# {name}"]
        yield from program.graph_module.print_readable(print_output=False).strip().splitlines()


def _model_lines(model: bytes) -> Iterator[str]:
    graph = inferred(model).graph
    known = {value.name: _type(value.type.tensor_type) for value in _values(graph)}
    for kind, values in (("input", graph.input), ("output", graph.output)):
        yield from (f"{kind:<6}  {value.name} {known[value.name]}" for value in values)
    for weight in graph.initializer:
        known[weight.name] = _text(weight.data_type, tuple(weight.dims))
        yield f"weight  {weight.name} {known[weight.name]}"
    yield from _node_lines(graph, known, "")


def _node_lines(graph: Any, known: dict[str, str], indent: str) -> Iterator[str]:
    for node in graph.node:
        ins, outs = (
            ", ".join(f"{name} {known.get(name, '')}".rstrip() for name in names if name)
            for names in (node.input, node.output)
        )
        yield f"{indent}{node.op_type}({ins}) → {outs}"
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield f"{indent}  {attribute.name}:"
                yield from _node_lines(attribute.g, known, indent + "    ")


def _values(graph: Any) -> Iterator[Any]:
    """Every value whose type is known, those inside branches included."""
    yield from (*graph.input, *graph.output, *graph.value_info)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _values(attribute.g)


def _type(tensor: Any) -> str:
    dims = tuple(dim.dim_param or dim.dim_value for dim in tensor.shape.dim)
    return _text(tensor.elem_type, dims)


def _text(kind: int, dims: tuple[Any, ...]) -> str:
    return f"{dtype_name(kind)} {shape_text(dims)}"


def show_operators(model: bytes, *, as_json: bool) -> None:
    """Prints the operators, dtypes and first change of precision of a file."""
    used, dtypes, change = operators(model), port_dtypes(model), first_precision_change(model)
    needs = max((each.since for each in used if each.since and "." not in each.name), default=1)
    if as_json:
        print_json(
            {
                "operators": [asdict(each) for each in used],
                "dtypes": dtypes,
                "needs_opset": needs,
                "precision_change": asdict(change) if change else None,
            }
        )
        return
    console = out()
    ports = table("port", "dtype", title="Ports")
    for name, dtype in dtypes.items():
        ports.add_row(name, dtype)
    console.print(ports, "")
    listed = table("operator", ">count", ">since opset", title="Operators")
    for each in used:
        listed.add_row(each.name, str(each.count), str(each.since or "unknown"))
    console.print(listed, "")
    console.print(f"needs      opset {needs} or later", markup=False)
    console.print(f"precision  {change or 'the same from end to end'}", markup=False)
