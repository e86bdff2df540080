"""One row out for each row in: axes that are dropped, and rows that come and go with the values."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from roadworthy.capture.state.draws import reaches_output
from roadworthy.errors import BatchSpecialised, Finding
from roadworthy.operators.captured import line_of, row_of


def refuse_changing_rows(graph: torch.export.ExportedProgram, name: str) -> None:
    """An error for every line that drops the batch axis, or makes its size depend on values."""
    findings = list(dict.fromkeys([*_squeezed(graph, name), *_counted(graph, name)]))
    if findings:
        raise BatchSpecialised(findings=findings)


def _counted(graph: torch.export.ExportedProgram, name: str) -> Iterator[Finding]:
    """A finding for an output whose size is known only when it is computed."""
    outputs = set(graph.graph_signature.user_outputs)
    sizes = {
        symbol
        for node in graph.graph.nodes
        if node.name in outputs
        for symbol in free_unbacked_symbols(node.meta["val"])
    }
    for node in graph.graph.nodes if sizes else ():
        if node.op == "call_function" and sizes & free_unbacked_symbols(node.meta.get("val")):
            yield Finding(
                code="RW173",
                where=line_of(node) or name,
                what="how many elements come out depends on the values of a tensor",
                hint="keep the shape: torch.where(mask, x, 0.0), or multiply by the mask",
            )
            return


def _squeezed(graph: torch.export.ExportedProgram, name: str) -> Iterator[Finding]:
    for node in graph.graph.nodes:
        if row_of(node.target).name != "squeeze":
            continue
        shape = node.args[0].meta["val"].shape
        if not shape:  # a number has no axis to lose
            continue
        said = node.args[1] if len(node.args) > 1 else range(len(shape))
        axes = [each % len(shape) for each in ([said] if isinstance(said, int) else said)]
        if not any(isinstance(shape[axis], torch.SymInt) for axis in axes):
            continue
        if not reaches_output(node):  # a log probability that nobody asked for
            continue
        single = [axis for axis in axes if isinstance(shape[axis], int) and shape[axis] == 1]
        where = line_of(node) or name
        yield Finding(
            code=BatchSpecialised.code,
            where=where,
            what="squeeze drops the batch axis too when there is one row: the action of one robot "
            "has other axes than those of several",
            hint=_advice(single),
        )


def _advice(single: list[int]) -> str:
    if not single:
        return "leave the squeeze out: no other axis has one element"
    axes = str(single[0]) if len(single) == 1 else str(tuple(single))
    return f"say which axis to drop: squeeze({axes})"
