"""Numbers that do next to nothing, kept: `x / (x.sum() + 1e-8)` is NaN at zero without them.

onnxscript leaves out what adds 0 or multiplies by 1, and takes a scalar within 1e-8 of the one and
within 1e-5 of the other for it. It looks at scalars alone: here they become tensors of one element.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch

_aten = torch.ops.aten
# Operator → the number with which it does nothing at all.
_NEUTRAL: dict[Any, float] = {
    _aten.add.Tensor: 0.0,
    _aten.add_.Tensor: 0.0,
    _aten.sub.Tensor: 0.0,
    _aten.sub_.Tensor: 0.0,
    _aten.mul.Tensor: 1.0,
    _aten.mul_.Tensor: 1.0,
    _aten.div.Tensor: 1.0,
    _aten.div_.Tensor: 1.0,
}


def with_small_constants(graph: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The graph with such numbers as tensors; itself where it has none."""
    if not any(_is_lost(node) for node in graph.graph.nodes):
        return graph
    made = copy.copy(graph)
    made._graph_module = copy.deepcopy(graph.graph_module)
    for node in [each for each in made.graph.nodes if _is_lost(each)]:
        beside, number = node.args[0], node.args[1]
        with made.graph.inserting_before(node):
            dtype = beside.meta["val"].dtype
            tensor = made.graph.call_function(_aten.full.default, ([1], number), {"dtype": dtype})
        tensor.meta["val"] = beside.meta["val"].new_full((1,), number)
        node.update_arg(1, tensor)
    made.graph_module.recompile()
    return made


def _is_lost(node: torch.fx.Node) -> bool:
    neutral = _NEUTRAL.get(node.target)
    if neutral is None or not isinstance(node.args[1], float) or node.args[1] == neutral:
        return False
    value = node.args[0].meta["val"] if isinstance(node.args[0], torch.fx.Node) else None
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.ndim == 0:
        return False
    return math.isclose(node.args[1], neutral, rel_tol=1e-5, abs_tol=1e-8)
