"""mjlab's file for a whole environment: the actor inside of it, as mjlab's own runner writes it.

A robot that runs such a file observes by itself and gives its motors the default position plus the
scaled action: mjlab's metadata say how.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from roadworthy.deploy.emit.acting import ACTIONS, OBS, Acting, acting
from roadworthy.deploy.emit.emission import Arrays, Emission, refuse, robot_of
from roadworthy.deploy.emit.graph import Graph, inside, properties
from roadworthy.spec.bundle import Bundle
from roadworthy.spec.port import Array
from roadworthy.spec.robot import Robot, in_order

# What rsl_rl calls the memory of an LSTM; a GRU has the first alone.
_HIDDEN = ("h", "c")
_POSITION = "joint_pos_target"


def emission(bundle: Bundle) -> Emission:
    """policy.onnx with the actor of an environment, and mjlab's metadata."""
    robot, said = robot_of(bundle, "mjlab"), properties(bundle)
    refuse("mjlab", _problems(bundle, robot, said))
    actor = acting(bundle, "mjlab")
    inputs = _inputs(json.loads(said["groups"]))
    graph = Graph(bundle, actor.model)
    _add_observations(graph, inputs, actor)
    graph.behind("Identity", [inside(actor.acted)], ACTIONS)
    graph.output(ACTIONS, _shape(bundle, ACTIONS))
    memory = {}
    for letter, held, leaving in zip(_HIDDEN, actor.memory, actor.leaving, strict=False):
        graph.input(f"{letter}_in", held.shape)
        graph.before("Identity", [f"{letter}_in"], inside(held.input))
        graph.behind("Identity", [inside(leaving)], f"{letter}_out")
        graph.output(f"{letter}_out", held.shape)
        memory[f"{letter}_out"] = f"{letter}_in"
    graph.metadata |= metadata(robot, said)

    def feeds(values: Arrays) -> dict[str, Array]:
        found, start = {}, 0
        for name, shape in inputs.items():
            found[name] = values[OBS][:, start : start + prod(shape)].reshape(1, *shape)
            start += prod(shape)
        return found

    return Emission(
        files={"policy.onnx": graph.bytes()},
        model="policy.onnx",
        feeds=feeds,
        given=lambda outputs: {ACTIONS: outputs[ACTIONS]},
        memory=memory,
        every=bundle.signature.decimation,
    )


def metadata(robot: Robot, said: Mapping[str, str]) -> dict[str, str]:
    """The keys that mjlab's runners attach, unrounded; joints without a motor have no gains.

    Yes and no are numbers there.
    """
    (action,) = json.loads(said["actions"])
    terms = [each for each in json.loads(said["observations"]) if each["group"] == _group(said)]
    gains = dict(robot.stiffness), dict(robot.damping)
    moved = [j for j in robot.joints if any(each.get(j) is not None for each in gains)]
    listed: dict[str, Sequence[object]] = {
        "joint_names": robot.joints,
        "joint_stiffness": in_order(robot.stiffness, moved),
        "joint_damping": in_order(robot.damping, moved),
        "default_joint_pos": in_order(robot.default_position, robot.joints),
        "command_names": json.loads(said["commands"]),
        "observation_names": [term["name"] for term in terms],
        "observation_terms_scale": [1.0 if t["scale"] is None else t["scale"] for t in terms],
        "observation_terms_flatten_history_dim": [float(t["flattened"]) for t in terms],
        "observation_terms_history_length": [term["history"] for term in terms],
        "observation_terms_clip": [term["clip"] or ["-inf", "inf"] for term in terms],
        "action_scale": [action["scale"][name] for name in action["targets"]],
    }
    return {"run_path": "local"} | {
        key: ",".join(_entry(each) for each in values) for key, values in listed.items()
    }


def _problems(bundle: Bundle, robot: Robot, said: Mapping[str, str]) -> list[tuple[str, str]]:
    signature, problems = bundle.signature, []
    if "groups" not in said:
        return [("the environment is none of mjlab's", "export the actor alone, with metadata=")]
    if signature.fixed_rows != 1:
        what = f"the policy takes {signature.fixed_rows} rows, and mjlab's files take one"
        problems.append((what, "export an environment with num_envs = 1"))
    if any(".time_steps" in port.name for port in signature.inputs):
        what = "mjlab's files for tracking hold the whole motion, the bundle what the actor reads"
        problems.append((what, "let mjlab's own runner write it: runner.save(path)"))
    actions = json.loads(said["actions"])
    if len(actions) != 1 or not any(p.name.endswith(_POSITION) for p in signature.outputs):
        what = "mjlab writes such a file for one term of joint positions"
        names = ", ".join(f"{each['name']} of {each['entity']}" for each in actions)
        problems.append((f"{what}, and the actions are {names}", "run the bundle itself"))
    elif action_offset(actions[0]) != action_default(robot, actions[0]):
        what = "the offset of the action is not the default position, which a runtime of mjlab adds"
        problems.append((what, "use_default_offset = True, or run the bundle itself"))
    return problems


def action_offset(action: Mapping[str, Any]) -> list[float]:
    """What is added to each scaled action."""
    return [action["offset"][name] for name in action["targets"]]


def action_default(robot: Robot, action: Mapping[str, Any]) -> list[float]:
    """Where the joints of an action rest."""
    return in_order(robot.default_position, action["targets"])


def _group(said: Mapping[str, str]) -> str:
    """The group whose terms the metadata list: mjlab's own name for it, or the first."""
    names = [group["name"] for group in json.loads(said["groups"])]
    return "actor" if "actor" in names else str(names[0])


def _inputs(groups: Sequence[Mapping[str, Any]]) -> dict[str, tuple[int, ...]]:
    """The inputs of rsl_rl's files in the order of the row: `obs`, then images by their groups."""
    vectors = [group["shape"] for group in groups if len(group["shape"]) == 1]
    images = {g["name"]: tuple(g["shape"]) for g in groups if len(g["shape"]) > 1}
    return {OBS: (sum(size for (size,) in vectors),)} | images


def _add_observations(graph: Graph, inputs: Mapping[str, tuple[int, ...]], actor: Acting) -> None:
    for name, shape in inputs.items():
        graph.input(name, [1, *shape])
        rows = graph.constant(f"{name}/row", [1, prod(shape)], np.int64)
        graph.before("Reshape", [name, rows], f"{name}/flat")
    graph.before("Concat", [f"{name}/flat" for name in inputs], inside(actor.observed), axis=1)


def _shape(bundle: Bundle, output: str) -> Sequence[int | str]:
    (port,) = (each for each in bundle.signature.outputs if each.name == output)
    return port.shape


def _entry(value: object) -> str:
    return ";".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)
