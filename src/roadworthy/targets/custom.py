"""Operators of the user's own: how they are written, and by which name they are recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from roadworthy.capture.program import Program
from roadworthy.errors import ExportError, UsageError
from roadworthy.errors.lines import user_line
from roadworthy.errors.quiet import quiet

Table = Mapping[Any, Callable[..., Any]]


def refuse_bad_tables(translations: Table, decompositions: Table) -> None:
    """An error for a key that is no operator, or a value that cannot be called."""
    for argument, table in (("translations", translations), ("decompositions", decompositions)):
        if not isinstance(table, Mapping):
            raise UsageError(
                f"expected a mapping from operators to functions, got {type(table).__name__}",
                where=argument,
                hint=f"{argument}={{torch.ops.mylib.op.default: function}}",
            )
        for operator, function in table.items():
            if isinstance(operator, torch._ops.OpOverloadPacket):
                known = operator.overloads()  # type: ignore[no-untyped-call]
                overloads = " or ".join(f"torch.ops.{operator}.{each}" for each in known)
                raise UsageError(
                    f"{operator} has several overloads, expected one of them",
                    where=argument,
                    hint=overloads,
                )
            if not isinstance(operator, torch._ops.OpOverload):
                raise UsageError(
                    f"expected an operator, got {operator!r}",
                    where=argument,
                    hint=f"{argument}={{torch.ops.mylib.op.default: function}}",
                )
            if not callable(function):
                raise UsageError(
                    f"expected a function for {operator}, got {type(function).__name__}",
                    where=argument,
                    hint="pass a Python function that takes the operator's arguments",
                )
    both = [str(operator) for operator in translations if operator in decompositions]
    if both:
        raise UsageError(
            f"{both[0]} has a translation and a decomposition",
            hint="keep one: a decomposed operator is gone before translations are applied",
        )


def decomposed(program: Program, table: Table) -> Program:
    """The program with the operators of the table computed by the table's functions."""
    if not table:
        return program
    substep = None if program.substep is None else _run(program.substep, table)
    return replace(program, graph=_run(program.graph, table), substep=substep)


def named(table: Table) -> dict[str, str]:
    """Operator → function, by name: what the manifest says."""
    return {
        str(operator): str(getattr(function, "__name__", None) or type(function).__name__)
        for operator, function in table.items()
    }


def _run(graph: torch.export.ExportedProgram, table: Table) -> torch.export.ExportedProgram:
    try:
        with quiet():
            result: torch.export.ExportedProgram = graph.run_decompositions(dict(table))
    except Exception as error:  # whatever the user's function raises
        raise ExportError(
            f"a decomposition raised {type(error).__name__}: {str(error).partition(chr(10))[0]}",
            code="RW193",
            where=user_line(error),
            hint="it gets the operator's arguments, and must return tensors of the same shapes",
        ) from error
    return result
