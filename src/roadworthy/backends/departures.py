"""Where an ONNX file departs from PyTorch and nothing can be done: named in its certificate.

Found by `benchmarks/operator_sweep.py`; what could be put right stands in `translations/`. One row
is one kind of departure: the operators that have it, by their names in `torch.ops.aten`, the range
of inputs in which it is seen, and what is seen there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from roadworthy.backends.translations.recurrent import left_to_onnxruntime
from roadworthy.errors import Finding
from roadworthy.errors.lines import quoted_line
from roadworthy.program import Program

CODE = "RW340"
# Operators that a file may be written with sigmoids for, and what is left of each then.
_SIGMOIDS = ("sigmoid", "glu", "lstm_cell", "gru_cell", "silu", "lstm", "gru")


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """Operators whose results are not PyTorch's in a range of their inputs."""

    operators: tuple[str, ...]
    where: str
    what: str


_ROUNDING = "the result is off by up to 6e-8, which is much of a small number"
_NAN = "for rows in which some elements are NaN"

DEPARTURES = (
    Departure(
        operators=("elu", "celu", "selu"),
        where="for inputs between -1e-3 and 0",
        what=f"{_ROUNDING}: eˣ − 1 is computed as written",
    ),
    Departure(
        operators=("sigmoid", "glu", "lstm_cell", "gru_cell"),
        where="for inputs below -3",
        what=f"{_ROUNDING}; below -17 it is 0",
    ),
    Departure(
        operators=("silu",),
        where="for inputs below -3",
        what="the result is off by up to 5e-7, and 0 below -17",
    ),
    Departure(
        operators=("gelu",),
        where="for inputs below -3",
        what="the result is off by up to 3e-7, which is much of a small number",
    ),
    Departure(
        operators=("erfc", "special_erfc", "special_ndtr"),
        where="where the result is below 1e-2",
        what=f"{_ROUNDING}: 1 − erf is computed as written",
    ),
    Departure(
        operators=("lstm", "gru"),
        where="for NaN observations in a sequence of many steps",
        what="the result is a number, where PyTorch gives NaN: a broken sensor is not seen",
    ),
    Departure(
        operators=("argmax", "argmin"),
        where=_NAN,
        what="NaN is passed over, where PyTorch chooses it",
    ),
    Departure(
        operators=("amax", "amin", "max", "min", "aminmax", "adaptive_max_pool1d"),
        where=_NAN,
        what="NaN is passed over, where PyTorch gives NaN",
    ),
    Departure(
        operators=("max_pool1d", "max_pool2d", "max_pool3d", "scatter_reduce"),
        where=f"{_NAN} or -inf",
        what="NaN is passed over, and -inf may become -3.4e38",
    ),
    Departure(
        operators=("topk", "sort", "argsort", "quantile"),
        where=f"{_NAN}, or equal",
        what="NaN stands elsewhere than in PyTorch's order, and of equal elements others may be "
        "chosen",
    ),
    Departure(
        operators=("std", "var", "var_mean", "std_mean"),
        where="for inputs beyond 1e19 or within 1e-19 of each other",
        what="squares overflow or vanish, where PyTorch's do not",
    ),
    Departure(
        operators=("heaviside",),
        where="for NaN",
        what="the result is 1, where PyTorch gives 0",
    ),
    Departure(
        operators=("isclose",),
        where="for numbers within 1e-8 of zero",
        what="the absolute tolerance is not applied to zero as PyTorch does",
    ),
    Departure(
        operators=(
            "upsample_linear1d",
            "upsample_bilinear2d",
            "upsample_trilinear3d",
            "upsample_bicubic2d",
        ),
        where="for infinite inputs",
        what="the result may be NaN, where PyTorch gives infinity, and the other way round",
    ),
    Departure(
        operators=("to", "_to_copy"),
        where="for numbers beyond the range of the whole type",
        what="the target c gives the end of that range, where PyTorch's result depends on the "
        "processor",
    ),
)  # fmt: skip
_SMALL = (torch.uint8, torch.int8, torch.int16)
_ROWS = {name: row for row in DEPARTURES for name in row.operators}


def has_sigmoids(program: Program) -> bool:
    """Whether an ONNX file of the program may depart because of a sigmoid."""
    graphs = [each for each in (program.graph, program.substep) if each is not None]
    return any(_name(node) in _SIGMOIDS for graph in graphs for node in graph.graph.nodes)


def departures(
    program: Program,
    translated: Mapping[Any, Any] | None = None,
    *,
    whole_sigmoids: bool = False,
) -> tuple[Finding, ...]:
    """A note for each operator of the program that its ONNX file computes differently somewhere.

    `translated` are the operators that the user writes in their own way: of these nothing is known.
    `whole_sigmoids` is that of the backends' settings: then those do not depart.
    """
    graphs = [each for each in (program.graph, program.substep) if each is not None]
    found = {
        name: node
        for graph in reversed(graphs)
        for name, node in _departing(graph, translated or {})
    }
    return tuple(
        Finding(
            code=CODE,
            where=_line(found[name]),
            what=f"{name} {row.where}: {row.what}",
            hint="nothing to do, unless the policy meets such inputs: about={…: rw.About(low=…, "
            "high=…)} says what it meets",
            severity="note",
        )
        for name, row in _ROWS.items()
        if name in found and not (whole_sigmoids and name in _SIGMOIDS[:-2])
    )


def _departing(
    graph: torch.export.ExportedProgram, translated: Mapping[Any, Any]
) -> Iterator[tuple[str, torch.fx.Node]]:
    """The operators that have a row, the first use of each last."""
    for node in reversed(graph.graph.nodes):
        name = _name(node)
        if (
            name in _ROWS
            and node.target not in translated
            and (name not in ("lstm", "gru") or left_to_onnxruntime(node))
            and (name not in ("to", "_to_copy") or _becomes_small(node))
            and (name not in ("elu", "celu", "selu") or not _is_double(node))
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


def _name(node: torch.fx.Node) -> str:
    if not isinstance(node.target, torch._ops.OpOverload):
        return ""
    return node.target._schema.name.removeprefix("aten::")


def _line(node: torch.fx.Node) -> str:
    return quoted_line(node.meta.get("stack_trace") or "")
