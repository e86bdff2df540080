"""A graph that is not traced anew where nothing in it has to be taken apart.

Before it writes ONNX, torch.onnx asks the graph to decompose every operator that its table does not
have. torch.export answers that by tracing the whole graph twice, with symbolic sizes, even where no
operator is concerned: half of the time that the file of a diffusion policy takes. Operators that
are another one under a simpler name are renamed here.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Container
from typing import Any

import torch

from roadworthy.operators.captured import name_of
from roadworthy.operators.table import known

Program = torch.export.ExportedProgram
_aten = torch.ops.aten


def settled(graph: Program, written: Container[Any]) -> Program:
    """The same graph, which decomposes itself only if there is something to decompose.

    `written` are the operators that there is an ONNX form for.
    """
    made: Any = copy.copy(graph)
    made.__class__ = _Settled
    made._written = written
    settled_graph: Program = made
    return settled_graph


class _Settled(Program):
    """Its decomposition is a copy where every operator is written as it is."""

    _written: Container[Any]

    def run_decompositions(self, decomp_table: Any = None, *args: Any, **kwargs: Any) -> Program:
        made: Any = copy.copy(self)
        made.__class__ = Program
        del made._written
        if not self._is_settled():
            plain: Program = made.run_decompositions(decomp_table, *args, **kwargs)
            return plain
        # What comes next writes into the graph.
        made._graph_module = copy.deepcopy(self.graph_module)
        for node, own in zip(made.graph.nodes, self.graph.nodes, strict=True):
            node.name = own.name  # a copy renames what Python has a function for, such as `input`
        for node in list(made.graph.nodes):
            renamed = _renamed(node)
            if renamed is not None:
                _rename(node, *renamed)
        made.graph_module.recompile()
        copied: Program = made
        return copied

    def _is_settled(self) -> bool:
        inside = self.graph_module.children()
        if any(isinstance(each, torch.fx.GraphModule) for each in inside):
            return False  # branches and loops
        return all(_stays(node, self._written) for node in self.graph.nodes)


def _stays(node: torch.fx.Node, written: Container[Any]) -> bool:
    """Whether a node is a pure operator that is written as it is, or computes with sizes."""
    if node.op in ("placeholder", "output"):
        return True
    if node.op != "call_function":
        return False
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return isinstance(target, types.BuiltinFunctionType)
    if known(name_of(target)).renamed:
        return _renamed(node) is not None
    if target in _ASSERTIONS:
        return True
    pure = target.namespace == "aten" and not target._schema.is_mutable and target in written
    return pure and (target in _VIEWS or _is_kept(target))


def _is_kept(target: torch._ops.OpOverload) -> bool:
    """Whether torch.export leaves an operator whole where a table asks for it."""
    from torch._export.utils import _is_cia_op, _is_preservable_cia_op

    return not _is_cia_op(target) or _is_preservable_cia_op(target)


def _rename(node: torch.fx.Node, target: Any, arguments: tuple[Any, ...]) -> None:
    """Changes the graph: the node is the operator behind it."""
    with node.graph.inserting_before(node):
        other = node.graph.call_function(target, arguments)
    name, other.meta = node.name, node.meta
    node.replace_all_uses_with(other)
    node.graph.erase_node(node)
    other.name = name  # by which the value is known in the graph that was captured


def _renamed(node: torch.fx.Node) -> tuple[Any, tuple[Any, ...]] | None:
    """The operator that a node is under a simpler name, and its arguments; None where it is none.

    Those of other sizes than numbers, and of rows without their axis, are for torch.export.
    """
    if node.target is _aten.chunk.default:
        return _split(*node.args, **node.kwargs)
    if node.target is _aten.conv_transpose1d.default:
        return _convolution(1, *node.args, **node.kwargs)
    if node.target is _aten.conv_transpose2d.input:
        return _convolution(2, *node.args, **node.kwargs)
    return None


def _split(value: Any, chunks: Any, dim: Any = 0) -> tuple[Any, tuple[Any, ...]] | None:
    size = value.meta["val"].shape[dim]
    if not isinstance(size, int):
        return None
    return _aten.split.Tensor, (value, -(-size // chunks), dim)


def _convolution(
    axes: int, x: Any, weight: Any, bias: Any = None, stride: Any = (1,), padding: Any = (0,),
    output_padding: Any = (0,), groups: Any = 1, dilation: Any = (1,),
) -> tuple[Any, tuple[Any, ...]] | None:  # fmt: skip
    if x.meta["val"].ndim != axes + 2:
        return None
    stride, padding, dilation, output_padding = (
        [*each] * (axes if len(each) == 1 else 1)
        for each in (stride, padding, dilation, output_padding)
    )
    arguments = (x, weight, bias, stride, padding, dilation, True, output_padding, groups)
    return _aten.convolution.default, arguments


# Views that torch.export always takes apart; their ONNX form is one Reshape.
_VIEWS = (_aten.flatten.using_ints,)
# Removed before anything is written.
_ASSERTIONS = (_aten._assert_scalar.default, _aten._assert_tensor_metadata.default)
