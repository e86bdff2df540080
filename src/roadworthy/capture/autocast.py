"""Autocast inside of a policy: what it computes in bfloat16, the artifact computes in float32.

onnxruntime has no bfloat16, and float32 is the better of the two. The original stays as it is: its
own rounding, in its own precision, is what the artifact is measured by.
"""

from __future__ import annotations

import copy
import operator
from typing import Any

import torch

_WITH_AUTOCAST = torch.ops.higher_order.wrap_with_autocast
_SAYS_DTYPE = torch.ops.aten._assert_tensor_metadata.default


class InFloat32(torch.nn.Module):
    """A captured graph, run with its autocasts left out."""

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        super().__init__()
        plain = copy.copy(program)
        plain._graph_module = copy.deepcopy(program.graph_module)
        for node in list(plain.graph.nodes):
            if node.target is _WITH_AUTOCAST:
                _inline(plain.graph_module, node)
            elif node.target is _SAYS_DTYPE:
                plain.graph.erase_node(node)  # it holds for the precision that was left
        plain.graph_module.recompile()
        self.plain = plain.module(check_guards=False)

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.plain(*tensors)


def casts(program: torch.export.ExportedProgram) -> bool:
    """Whether a part of the graph is computed under an autocast."""
    return any(node.target is _WITH_AUTOCAST and node.args[2] for node in program.graph.nodes)


def _inline(module: torch.fx.GraphModule, call: torch.fx.Node) -> None:
    """Changes the graph: the body of an autocast stands where its call was."""
    _, _, _, _, body, *values = call.args
    assert isinstance(body, torch.fx.Node)
    inside = getattr(module, str(body.target)).graph
    entering = [node for node in inside.nodes if node.op == "placeholder"]
    copied: dict[Any, Any] = dict(zip(entering, values, strict=True))
    with module.graph.inserting_before(call):
        results: Any = module.graph.graph_copy(inside, copied)
    for user in list(call.users):
        assert user.target is operator.getitem
        user.replace_all_uses_with(results[user.args[1]])
        module.graph.erase_node(user)
    module.graph.erase_node(call)
    if not body.users:
        module.graph.erase_node(body)
