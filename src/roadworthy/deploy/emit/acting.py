"""The actor alone, taken out of the file of a whole environment: observations in, actions out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx

from roadworthy.deploy.emit.emission import model_of, refuse
from roadworthy.deploy.emit.graph import branches
from roadworthy.spec.bundle import Bundle
from roadworthy.spec.port import Memory

OBS, ACTIONS = "obs", "actions"
# What an environment calls the memory of its actor.
_HIDDEN = "actor_hidden_state_"


@dataclass(frozen=True, slots=True, eq=False)
class Acting:
    """The part of a decision between the observations and the actions.

    `observed` and `acted` are the names of both in it; `memory` is the actor's own, whose inputs
    keep their names, and `leaving` is what its outputs are called.
    """

    model: onnx.ModelProto
    observed: str
    acted: str
    memory: tuple[Memory, ...]
    leaving: tuple[str, ...]


def acting(bundle: Bundle, layout: str) -> Acting:
    """The actor in the file of a whole environment, node by node as it is there."""
    model = onnx.load_from_string(model_of(bundle))
    decision, outputs = _decision(model.graph)
    memory = tuple(m for m in bundle.signature.memory if m.name.startswith(_HIDDEN))
    leaving = tuple(outputs[each.output] for each in memory)
    observed, acted = outputs[OBS], outputs[ACTIONS]
    given = {observed, *(each.input for each in memory)}
    nodes, read = _between(decision, given, {acted, *leaving})
    besides = sorted(read & {port.name for port in model.graph.input} - given)
    refuse(layout, [(f"the actor reads {name} besides its observations", _OWN) for name in besides])
    constants = [
        each
        for each in (*model.graph.initializer, *decision.initializer)
        if each.name in read and each.name not in given
    ]
    del model.graph.node[:], model.graph.initializer[:], model.graph.value_info[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(constants)
    return Acting(model, observed, acted, memory, leaving)


_OWN = "export runner.alg.get_policy() alone: rw.export(actor, folder, example={'obs': …})"


def _decision(graph: onnx.GraphProto) -> tuple[onnx.GraphProto, dict[str, str]]:
    """The half that decides, and what each output of the file is called in it."""
    (choice,) = (node for node in graph.node if ACTIONS in node.output)
    (decides,) = (each.g for each in choice.attribute if each.name == "then_branch")
    inner = [each.name for each in decides.output]
    return decides, dict(zip(choice.output, inner, strict=True))


def _between(
    graph: onnx.GraphProto, given: set[str], wanted: set[str]
) -> tuple[list[onnx.NodeProto], set[str]]:
    """The nodes that make what is wanted from what is given, in their order, and all they read."""
    read, found = set(wanted), []
    for node in reversed(graph.node):
        makes = set(node.output) & read - given
        if makes:
            found.append(node)
            read |= set(_reads(node))
    return found[::-1], read


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """What a node reads, and the nodes in the graphs inside of it."""
    yield from node.input
    for branch in branches(node):
        yield from (each.name for each in branch.output)
        for each in branch.node:
            yield from _reads(each)
