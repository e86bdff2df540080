"""What a certificate says of the operators whose ONNX form is not PyTorch's everywhere (RW340)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from roadworthy.capture.program import Program
from roadworthy.errors import Finding
from roadworthy.operators.captured import line_of, name_of
from roadworthy.operators.table import OPERATORS, known
from roadworthy.targets.onnx.translations.recurrent import left_to_onnxruntime

CODE = "RW340"
_SMALL = (torch.uint8, torch.int8, torch.int16)


def has_sigmoids(program: Program) -> bool:
    """Whether an ONNX file of the program may differ because of a sigmoid."""
    return any(
        known(name_of(node.target)).sigmoids
        for graph in _graphs(program)
        for node in graph.graph.nodes
    )


def differences(
    program: Program,
    translated: Mapping[Any, Any] | None = None,
    *,
    whole_sigmoids: bool = False,
) -> tuple[Finding, ...]:
    """A note for each operator of the program that its ONNX file computes differently somewhere.

    `translated` are the operators that the user writes in their own way: of these nothing is known.
    `whole_sigmoids` is that of the backends' settings: then those do not differ.
    """
    found = {
        name: node
        for graph in reversed(_graphs(program))
        for name, node in _differing(graph, translated or {})
    }
    return tuple(
        Finding(
            code=CODE,
            where=line_of(found[row.name]),
            what=f"{row.name} {row.differs.where}: {row.differs.what}",
            hint="nothing to do, unless the policy meets such inputs: about={…: rw.About(low=…, "
            "high=…)} says what it meets",
            severity="note",
        )
        for row in OPERATORS
        if row.name in found
        and row.differs is not None
        and not (whole_sigmoids and row.differs.of_sigmoids)
    )


def _graphs(program: Program) -> list[torch.export.ExportedProgram]:
    return [each for each in (program.graph, program.substep) if each is not None]


def _differing(
    graph: torch.export.ExportedProgram, translated: Mapping[Any, Any]
) -> Iterator[tuple[str, torch.fx.Node]]:
    """The operators whose form differs, the first use of each last."""
    for node in reversed(graph.graph.nodes):
        name = name_of(node.target)
        if (
            known(name).differs is not None
            and node.target not in translated
            and (name not in ("lstm", "gru") or left_to_onnxruntime(node))
            and (not known(name).casts or _becomes_small(node))
            and not (known(name).doubles and _is_double(node))
        ):
            yield name, node


def _is_double(node: torch.fx.Node) -> bool:
    """Whether it is written with all of its bits (`translations/doubles.py`)."""
    made = node.meta.get("val")
    return isinstance(made, torch.Tensor) and made.dtype == torch.float64


def _becomes_small(node: torch.fx.Node) -> bool:
    """Whether floats become whole numbers of a type that most of them are beyond."""
    source = node.args[0]
    given = source.meta.get("val") if isinstance(source, torch.fx.Node) else None
    made = node.meta.get("val")
    if not isinstance(given, torch.Tensor) or not isinstance(made, torch.Tensor):
        return False
    return given.dtype.is_floating_point and made.dtype in _SMALL
