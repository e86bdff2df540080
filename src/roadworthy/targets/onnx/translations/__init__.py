"""Operators whose usual ONNX form differs from PyTorch: how this project writes them instead.

`benchmarks/operator_sweep.py` compares every operator over the corners. Those whose difference it
found and whose form could be put right are written here; what could not is in
`operators/differences.py`. A row of the table of operators names the file that writes it, and there
`aten.remainder.Scalar_Tensor` is the function `remainder_scalar_tensor`, `aten.sort.default` is
`sort`. A user's own `translations=` win over these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from roadworthy.operators.asking import overloads
from roadworthy.operators.table import OPERATORS


@cache
def own_translations(*, doubles: bool = False) -> Mapping[Any, Callable[..., Any]]:
    """Operator → the function in onnxscript that writes it as PyTorch computes it.

    doubles  for a graph that holds float64
    """
    written: dict[Any, Callable[..., Any]] = {}
    for row in OPERATORS:
        if row.onnx:
            written |= _forms(row.name, row.onnx)
        if row.doubles and doubles:
            written |= _forms(row.name, "doubles")
    return written


def _forms(operator: str, file: str) -> Mapping[Any, Callable[..., Any]]:
    """The overloads of an operator that a file writes."""
    written = vars(import_module(f"{__name__}.{file}"))
    names = {
        each: f"_{each._overloadname.lower()}".removesuffix("_default")
        for each in overloads(operator)
    }
    return {
        each: written[operator.strip("_") + name]
        for each, name in names.items()
        if operator.strip("_") + name in written
    }
