"""Operators that ONNX does not have, computed once where nothing but weights goes into them.

An orthogonal parametrisation makes its weight by a Householder product in every call, a whitened
action an inverse: of a trained policy neither ever changes.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument

from roadworthy.operators.asking import writes
from roadworthy.operators.captured import lifted, name_of, varying
from roadworthy.operators.table import known


def folded(graph: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The graph with the results of such operators as constants; itself where it has none."""
    # Where something is written in place, what a node is made of is not all among its arguments.
    if any(writes(node.target) for node in graph.graph.nodes):
        return graph
    costly = [node for node in graph.graph.nodes if _is_costly(node.target)]
    varies = varying(graph) if costly else set()
    wanted = [node for node in costly if node not in varies]
    if not wanted:
        return graph
    made = copy.copy(graph)
    made._graph_module = copy.deepcopy(graph.graph_module)
    made._graph_signature = copy.deepcopy(graph.graph_signature)
    made._constants = dict(graph.constants)
    names = {node.name for node in wanted}
    for node in [each for each in made.graph.nodes if each.name in names]:
        _fold(made, node)
    made.graph.eliminate_dead_code()
    made.graph_module.recompile()
    return made


def _is_costly(target: object) -> bool:
    """Whether an operator is linear algebra: `linalg_inv`, or one that has another name."""
    name = name_of(target)
    return name.lstrip("_").startswith("linalg_") or known(name).algebra


def _fold(graph: torch.export.ExportedProgram, node: torch.fx.Node) -> None:
    """Changes the graph: each result of the node is a constant."""
    with torch.no_grad():
        value = _value(node, graph, {})
    if isinstance(value, torch.Tensor):
        node.replace_all_uses_with(_constant(graph, node, value, node.name))
        return
    for use in list(node.users):
        index = use.args[1]
        assert isinstance(index, int)  # the results of an operator are taken apart by getitem
        part = _constant(graph, use, value[index], f"{node.name}_{index}")
        use.replace_all_uses_with(part)


def _value(
    node: torch.fx.Node, graph: torch.export.ExportedProgram, values: dict[torch.fx.Node, Any]
) -> Any:
    """What a constant node gives, computed from the weights."""
    if node not in values:
        if node.op == "placeholder":
            values[node] = lifted(graph)[node.name]
        elif node.op == "get_attr":
            values[node] = getattr(graph.graph_module, str(node.target))
        else:
            args, kwargs = torch.fx.map_arg(
                (node.args, node.kwargs), lambda each: _value(each, graph, values)
            )
            assert callable(node.target)
            values[node] = node.target(*args, **kwargs)
    return values[node]


def _constant(
    graph: torch.export.ExportedProgram, node: torch.fx.Node, value: torch.Tensor, name: str
) -> torch.fx.Node:
    """Changes the graph: it has one more constant, under a name of its own."""
    specs = graph.graph_signature.input_specs
    at = next(i for i, spec in enumerate(specs) if spec.kind == InputKind.USER_INPUT)
    target = f"folded_{name}"
    placeholders = [each for each in graph.graph.nodes if each.op == "placeholder"]
    with graph.graph.inserting_before(placeholders[at]):
        made: torch.fx.Node = graph.graph.placeholder(target)
    made.meta["val"] = node.meta["val"]
    argument = TensorArgument(name=made.name)
    specs.insert(at, InputSpec(InputKind.CONSTANT_TENSOR, argument, target, None))
    graph.constants[target] = value.detach().clone()
    return made
