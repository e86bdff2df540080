"""Operators whose usual ONNX form differs from PyTorch: how this project writes them instead.

`benchmarks/operator_sweep.py` compares every operator over the corners. Those whose difference it
found and whose form could be put right stand here; those that could not are named in
`backends/departures.py`. A user's own `translations=` win over these.

| file            | operators |
| --------------- | --------- |
| `arithmetic.py` | remainders, quotients, rounding, signs, powers, clamps |
| `constants.py`  | numbers that are no float32 |
| `doubles.py`    | activations, norms and logarithms of float64 |
| `functions.py`  | atan2, degrees, logarithms and exponentials |
| `attention.py`  | scaled dot-product attention under a mask |
| `recurrent.py`  | LSTM and GRU, step by step |
| `ordering.py`   | sorting, medians, running extremes, searching |
| `resizing.py`   | images of another size |
| `shapes.py`     | squeezing, sums along an axis, scattering, writing under a mask |
| `shifts.py`     | shifts of bytes |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any


@cache
def own_translations(*, doubles: bool = False) -> Mapping[Any, Callable[..., Any]]:
    """Operator → the function in onnxscript that writes it as PyTorch computes it.

    doubles  for a graph that holds float64
    """
    from roadworthy.backends.translations import (
        arithmetic,
        attention,
        constants,
        functions,
        ordering,
        recurrent,
        resizing,
        shapes,
        shifts,
    )

    tables = [
        arithmetic,
        constants,
        functions,
        attention,
        recurrent,
        ordering,
        resizing,
        shapes,
        shifts,
    ]
    if doubles:
        from roadworthy.backends.translations import doubles as of_float64

        tables.append(of_float64)
    return {operator: function for module in tables for operator, function in module.TABLE.items()}
