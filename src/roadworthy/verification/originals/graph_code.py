"""A graph as code of its own: shaken, or in float64, as the interpreters of `interpreting` run it.

A policy that takes one row at a time is measured in thousands of small runs. Most of such a run was
PyTorch's interpreter; code that Python compiled once makes the same calls in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map

from roadworthy.verification.originals.interpreting import ASSERTS, Shake, exact_dtype, shaken_as


class GraphCode:
    """The forms of one graph, each made when it is first asked for."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        self._module = module
        self._shake: Shake | None = None
        self._forms: dict[str, torch.fx.GraphModule] = {}

    @staticmethod
    def fits(module: torch.fx.GraphModule) -> bool:
        """Whether code can be made: graphs inside of the graph are for the interpreters."""
        return not module.graph.find_nodes(op="get_attr")

    def shaken(self, ulps: int, seed: int) -> Callable[..., Any]:
        """The graph, with the results of all that rounds moved."""
        self._shake = Shake(ulps, seed)
        return self._form("shaken", self._with_shakes)

    def exact(self) -> Callable[..., Any]:
        """The graph for arguments in float64."""
        return self._form("exact", self._in_float64)

    def _form(self, name: str, change: Callable[[torch.fx.Graph], None]) -> torch.fx.GraphModule:
        if name not in self._forms:
            graph = torch.fx.Graph()
            copied: dict[torch.fx.Node, torch.fx.Node] = {}
            graph.output(graph.graph_copy(self._module.graph, copied))
            change(graph)
            self._forms[name] = torch.fx.GraphModule(self._module, graph)
        return self._forms[name]

    def _with_shakes(self, graph: torch.fx.Graph) -> None:
        for node in list(graph.nodes):
            kind = shaken_as(node)
            if kind:
                with graph.inserting_after(node):
                    moved = graph.call_function(self._moved, (kind, node))
                node.replace_all_uses_with(moved, lambda user, made=moved: user is not made)

    def _moved(self, kind: str, result: Any) -> Any:
        assert self._shake is not None
        return self._shake.of(kind, result)

    def _in_float64(self, graph: torch.fx.Graph) -> None:
        for node in list(graph.nodes):
            if node.target in ASSERTS:
                graph.erase_node(node)
            else:
                node.args = tree_map(exact_dtype, node.args)
                node.kwargs = tree_map(exact_dtype, node.kwargs)
