"""Random operators that are left in a captured graph, and reach what it returns."""

from __future__ import annotations

from collections.abc import Callable

import torch

from roadworthy.errors import ExportError
from roadworthy.operators.asking import arguments
from roadworthy.operators.captured import reached


def refuse_draws(graph: torch.export.ExportedProgram, where: Callable[[], str]) -> None:
    """An error for a draw that an output depends on; a sample that is only kept is none.

    `where` finds the line that draws.
    """
    for node in graph.graph.nodes:
        if _draws(node) and reaches_output(node):
            name = getattr(node.target, "__name__", str(node.target)).partition(".")[0]
            raise ExportError(
                f"random numbers are drawn inside the policy ({name}), and an output depends on "
                "them; each runtime would draw its own",
                code="RW111",
                where=where(),
                hint="return the mean or the mode of the distribution instead of a sample",
            )


def _draws(node: torch.fx.Node) -> bool:
    target = node.target
    return (
        isinstance(target, torch._ops.OpOverload)
        and torch.Tag.nondeterministic_seeded in target.tags
        and not _is_idle(node, target)
    )


def _is_idle(node: torch.fx.Node, target: torch._ops.OpOverload) -> bool:
    """Whether an operator that draws while it trains evaluates: a dropout, an LSTM, attention."""
    said = dict(zip(arguments(target), node.args, strict=False))
    said |= node.kwargs
    default = {each.name: each.default_value for each in target._schema.arguments}
    given = default | said
    return any(given.get(name) is False for name in ("train", "training")) or any(
        given.get(name, 1) == 0 for name in ("p", "dropout", "dropout_p")
    )


def reaches_output(node: torch.fx.Node) -> bool:
    """Whether anything that the graph returns depends on a node."""
    return any(each.op == "output" for each in reached([node], _dependent))


def _dependent(node: torch.fx.Node) -> list[torch.fx.Node]:
    """Whatever takes its values from a node.

    Of tensors that are broadcast together each comes back with its own values. The logits of a
    distribution that was asked for the probability of a sample are broadcast together with it.
    """
    users: list[torch.fx.Node] = []
    for user in node.users:
        if user.target is not torch.ops.aten.broadcast_tensors.default:
            users.append(user)
            continue
        together = user.args[0]
        assert isinstance(together, (list, tuple))  # what the operator takes
        places = [place for place, each in enumerate(together) if each is node]
        users += [each for each in user.users if each.args[1] in places]
    return users
