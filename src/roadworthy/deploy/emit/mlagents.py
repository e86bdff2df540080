"""Unity ML-Agents: its names for ports, and the constants that its importer looks for.

Memories lie side by side in one vector, (batch, 1, size), which ML-Agents starts at zero.
"""

from __future__ import annotations

import math

import numpy as np
import onnx

from roadworthy.deploy.emit.emission import (
    Arrays,
    Emission,
    action_port,
    branches_of,
    plain_ports,
    refuse,
)
from roadworthy.deploy.emit.graph import FLOAT, Graph, inside, sizes
from roadworthy.spec.bundle import Bundle
from roadworthy.spec.port import BATCH, Array, Memory, Port, leaves
from roadworthy.spec.signature import Signature

# What ML-Agents 2.0 and later write; each observation is obs_0, obs_1, …
_VERSION = 3
_MASK, _RECURRENT_IN, _RECURRENT_OUT = "action_masks", "recurrent_in", "recurrent_out"


def emission(bundle: Bundle) -> Emission:
    """policy.onnx with ML-Agents' ports."""
    signature = bundle.signature
    masks = [port for port in signature.observed if port.dtype == "bool"]
    refuse("mlagents", [*_problems(signature, masks), *plain_ports(bundle, memory=True)])
    observed = [port for port in signature.observed if port.dtype != "bool"]
    graph = Graph(bundle)
    for index, port in enumerate(observed):
        graph.input(f"obs_{index}", sizes(port.shape))
        graph.before("Identity", [f"obs_{index}"], inside(port.name))
        # Unity sorts sensors by their names: this says which observation each of them was.
        graph.metadata[f"roadworthy.obs_{index}"] = port.name
    width = sum(_width(each) for each in signature.memory)
    discrete = branches_of(signature)
    _add_masks(graph, masks, sum(discrete))
    graph.number("version_number", [_VERSION])
    graph.number("memory_size", [width])
    _add_action(graph, signature, discrete)
    if width:
        _add_memory(graph, signature.memory, width)

    def feeds(inputs: Arrays) -> dict[str, Array]:
        found = {f"obs_{at}": inputs[port.name] for at, port in enumerate(observed)}
        if discrete:
            rows = len(next(iter(inputs.values())))
            allowed = inputs[masks[0].name] if masks else np.ones((rows, sum(discrete)))
            found[_MASK] = np.asarray(allowed, np.float32).reshape(rows, -1)
        return found

    kind = "discrete" if discrete else "continuous"
    acted = action_port(signature)
    return Emission(
        files={"policy.onnx": graph.bytes()},
        model="policy.onnx",
        feeds=feeds,
        given=lambda outputs: {
            acted.name: outputs[f"{kind}_actions"].reshape(-1, *acted.shape[1:])
        },
        memory={_RECURRENT_OUT: _RECURRENT_IN} if width else {},
    )


def _width(memory: Memory) -> int:
    return math.prod(dim for dim in memory.shape if isinstance(dim, int))


def _problems(signature: Signature, masks: list[Port]) -> list[tuple[str, str]]:
    problems = []
    port = action_port(signature)
    if not port.dtype.startswith("float") and not branches_of(signature):
        problems.append(("how many choices there are is not known", "action=rw.Argmax()"))
    if port.dtype.startswith("float") and len(port.shape) != 2:
        problems.append((f"the action is {port}, expected (batch, size)", "flatten it"))
    if len(masks) > 1:
        problems.append(("the policy has several masks, the layout one", "join them"))
    for memory in signature.memory:
        if memory.dtype != "float32" or BATCH not in memory.shape:
            what = f"the memory {memory.name} is {memory}, and ML-Agents keeps float32 rows"
            problems.append((what, "export with float32 memory and any number of rows"))
        if any(leaves(memory.initial)):
            what = f"the memory {memory.name} does not start at zero, and ML-Agents' does"
            problems.append((what, "shift it inside the module, so that zero is its start"))
    if signature.fixed_rows is not None:
        problems.append(("the number of rows is fixed", "export it without batch="))
    return problems


def _add_masks(graph: Graph, masks: list[Port], width: int) -> None:
    if not width:
        return
    graph.input(_MASK, [BATCH, width])
    for port in masks:
        half = graph.constant("half", 0.5, np.float32)
        graph.before("Greater", [_MASK, half], "allowed")
        shape = graph.constant("mask_shape", [0 if d == BATCH else d for d in port.shape])
        graph.before("Reshape", ["allowed", shape], inside(port.name))


def _add_action(graph: Graph, signature: Signature, discrete: tuple[int, ...]) -> None:
    port = action_port(signature)
    given = inside(port.name)
    kind, size = ("discrete", len(discrete)) if discrete else ("continuous", port.shape[-1])
    dtype = onnx.TensorProto.INT64 if discrete else FLOAT
    if discrete:
        graph.behind("Cast", [given], "choice", to=dtype)
        given = "choices"
        graph.behind("Reshape", ["choice", graph.constant("branches", [-1, size])], given)
    graph.behind("Identity", [given], f"{kind}_actions")
    graph.output(f"{kind}_actions", [BATCH, size], dtype)
    graph.number(f"{kind}_action_output_shape", [list(discrete)] if discrete else [size])
    graph.behind("Identity", [given], f"deterministic_{kind}_actions")
    graph.output(f"deterministic_{kind}_actions", [BATCH, size], dtype)


def _add_memory(graph: Graph, memories: tuple[Memory, ...], width: int) -> None:
    graph.input(_RECURRENT_IN, [BATCH, 1, width])
    graph.output(_RECURRENT_OUT, [BATCH, 1, width])
    last, flat, start = graph.constant("last_axis", [2]), [], 0
    for memory in memories:
        axis, rank, name = memory.shape.index(BATCH), len(memory.shape), memory.name
        rows_first = [axis, *(each for each in range(rank) if each != axis)]
        ends = [graph.constant(f"{name}/from", [start]),
                graph.constant(f"{name}/to", [start := start + _width(memory)])]  # fmt: skip
        graph.before("Slice", [_RECURRENT_IN, *ends, last], f"{name}/part")
        row = [-1, *(memory.shape[each] for each in rows_first[1:])]
        graph.before(
            "Reshape", [f"{name}/part", graph.constant(f"{name}/row", row)], f"{name}/rows"
        )
        back = [rows_first.index(each) for each in range(rank)]
        graph.before("Transpose", [f"{name}/rows"], inside(memory.input), perm=back)
        graph.behind("Transpose", [inside(memory.output)], f"{name}/rows_out", perm=rows_first)
        one = graph.constant(f"{name}/flat", [-1, 1, _width(memory)])
        graph.behind("Reshape", [f"{name}/rows_out", one], f"{name}/flat_out")
        flat.append(f"{name}/flat_out")
    graph.behind("Concat", flat, _RECURRENT_OUT, axis=2)
