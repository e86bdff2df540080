"""onnxscript's optimiser, with its rules asked only about nodes that they are for.

It tries each of fifty rules at every node, and one of them goes through the whole graph each time:
for a large network that is most of the time that the file takes. The passes are onnxscript's own,
and so is what they make.
"""

from __future__ import annotations

import functools
from typing import Any

import onnx_ir as ir
import onnx_ir.passes.common as common
import onnxscript.optimizer
import torch
from onnxscript import rewriter
from onnxscript.rewriter import onnx_fusions

# onnxscript's own number: the second finds what the first has made possible.
_ROUNDS = 2


def optimize(program: torch.onnx.ONNXProgram) -> None:
    """Changes the program to what its own `optimize` makes of it, in less time."""
    try:
        passes = _passes()
    except (AttributeError, TypeError):  # what is private may change: then it takes its time
        program.optimize()
        return
    passes(program.model)
    onnx_fusions.fuse(program.model)


def _passes() -> ir.passes.Sequential:
    """The passes of onnxscript's `optimize_ir`."""
    return ir.passes.Sequential(
        common.InlinePass(),
        ir.passes.PassManager(
            [
                _Folding(),
                _rewriting(),
                common.RemoveUnusedNodesPass(),
                common.RemoveUnusedFunctionsPass(),  # type: ignore[no-untyped-call]
                common.RemoveUnusedOpsetsPass(),
            ],
            steps=_ROUNDS,
            early_stop=True,
        ),
        common.RemoveUnusedNodesPass(),
        common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0),
        common.LiftSubgraphInitializersToMainGraphPass(),
        common.DeduplicateInitializersPass(),
        common.CommonSubexpressionEliminationPass(),
        common.OutputFixPass(),
        common.NameFixPass(),
    )


class _Folding(ir.passes.InPlacePass):
    """Constants are computed, with the shape of every node beside them."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        result = onnxscript.optimizer.fold_constants(model, onnx_shape_inference=True)
        return ir.passes.PassResult(model, bool(result.modified))


@functools.cache
def _rewriting() -> rewriter.RewritePass:
    """onnxscript's default rules, each with the operators that its pattern ends in."""
    rules: list[Any] = [_Rooted(rule) for rule in rewriter._DEFAULT_REWRITE_RULES]
    return rewriter.RewritePass(rules)


class _Rooted:
    """A rule that is asked only about nodes that its pattern may end in; that rule in all else."""

    def __init__(self, rule: Any) -> None:
        self._rule = rule
        self._root = _root(rule)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rule, name)

    def try_rewrite(self, model: ir.Model, graph: Any, node: ir.Node, **said: Any) -> Any:
        if self._root is not None and node.op_type != self._root:
            return None
        return self._rule.try_rewrite(model, graph, node, **said)


def _root(rule: Any) -> str | None:
    """The operator of the node at which a rule is asked; None where it may be any.

    A pattern with several ends is looked for from the first of them.
    """
    ends = getattr(getattr(rule, "_target_pattern", None), "output_nodes", ())
    identifier = ends[0].op_identifier() if ends else None
    return None if identifier is None else str(identifier[1])
