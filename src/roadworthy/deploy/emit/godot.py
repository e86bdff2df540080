"""Godot RL Agents: `obs` and `state_ins` in, `output` and `state_outs` out.

The plugin never feeds `state_outs` back. Of a choice it takes the largest number that is above
zero, so it is given 1 for the action that was chosen and 0 for the others.
"""

from __future__ import annotations

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
from roadworthy.deploy.emit.graph import Graph, inside, sizes
from roadworthy.spec.bundle import Bundle
from roadworthy.spec.port import BATCH, Array, Port, leaves
from roadworthy.spec.signature import Signature


def emission(bundle: Bundle) -> Emission:
    """policy.onnx with the plugin's ports."""
    signature = bundle.signature
    refuse("godot", [*_problems(signature), *plain_ports(bundle)])
    (observed,) = signature.observed
    port = action_port(signature)
    graph = Graph(bundle)
    graph.input("obs", sizes(observed.shape))
    graph.before("Identity", ["obs"], inside(observed.name))
    graph.input("state_ins", [BATCH])
    branches = branches_of(signature)
    width = sum(branches) if branches else int(port.shape[-1])
    if branches:
        _add_choices(graph, port, branches)
    else:
        graph.behind("Identity", [inside(port.name)], "output")
    graph.output("output", [BATCH, width])
    graph.behind("Identity", ["state_ins"], "state_outs")
    graph.output("state_outs", [BATCH])

    def feeds(inputs: Arrays) -> dict[str, Array]:
        obs = inputs[observed.name]
        return {"obs": obs, "state_ins": np.ones(len(obs), np.float32)}

    def given(outputs: Arrays) -> dict[str, Array]:
        numbers = outputs["output"]
        if not branches:
            return {port.name: numbers}
        parts = np.split(numbers, np.cumsum(branches)[:-1], axis=1)
        chosen: Array = np.stack([part.argmax(axis=1) for part in parts], axis=1)
        return {port.name: chosen.reshape(-1, *port.shape[1:])}

    return Emission(
        files={"policy.onnx": graph.bytes()}, model="policy.onnx", feeds=feeds, given=given
    )


def _problems(signature: Signature) -> list[tuple[str, str]]:
    problems = []
    observed, action = signature.observed, signature.action
    if len(observed) != 1 or len(observed[0].shape) != 2:
        names = ", ".join(f"{port.name} {port}" for port in observed)
        problems.append((f"the plugin gives one vector, obs, and the policy takes {names}", ""))
    port = action_port(signature)
    if not branches_of(signature) and not (port.dtype == "float32" and len(port.shape) == 2):
        problems.append((f"the action is {port}", "action=rw.Argmax() for a choice"))
    known = (
        [] if action is None else [side for side in (action.low, action.high) if side is not None]
    )
    if any(abs(limit) > 1 for side in known for limit in leaves(side)):
        what = f"the plugin clamps actions to ±1, and the policy gives {action}"
        problems.append((what, "export actions within ±1, and scale them in set_action()"))
    return problems


def _add_choices(graph: Graph, port: Port, branches: tuple[int, ...]) -> None:
    graph.behind("Cast", [inside(port.name)], "choice", to=onnx.TensorProto.INT64)
    graph.behind("Reshape", ["choice", graph.constant("branches", [-1, len(branches)])], "choices")
    ends = graph.constant("off_on", [0.0, 1.0], np.float32)
    parts = []
    for at, size in enumerate(branches):
        graph.behind("Gather", ["choices", graph.constant(f"branch_{at}", at)], f"one_{at}", axis=1)
        depth = graph.constant(f"size_{at}", size)
        graph.behind("OneHot", [f"one_{at}", depth, ends], f"hot_{at}", axis=1)
        parts.append(f"hot_{at}")
    graph.behind("Concat", parts, "output", axis=1)
