"""The ports of a whole environment under the names that Exploy's controller knows.

A port that has such a name already keeps it. Others are those of a manager-based environment:
`<entity>.joint_pos`, `<entity>.root_quat`, `sensor.<name>`, `command.<name>`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from roadworthy.deploy.emit.exploy_matchers import JOINT_TARGETS, JOINTS, is_known, missing_targets
from roadworthy.spec.port import Port
from roadworthy.spec.robot import Robot, in_order
from roadworthy.spec.signature import Signature

_JOINTS = re.compile(r"(?P<entity>\w+)\.joint_(?P<kind>pos|vel)(\.(?P<joint>.+))?")
_FRAME = re.compile(r"(?P<entity>\w+)\.(root|(body|site)\.(?P<frame>[^.]+))[_.](?P<field>pos|quat)")
_TARGET = re.compile(r"(?P<entity>\w+)\.joint_(?P<kind>pos|vel|effort)_target")
_FIELDS = {"pos": "pos_b_rt_w_in_w", "quat": "w_Q_b"}
_IMU = {"velocimeter": "lin_vel_b_rt_w_in_b", "gyro": "ang_vel_b_rt_w_in_b", "framequat": "w_Q_b"}
_PLANAR = ("lin_vel_x", "lin_vel_y", "ang_vel_z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What each port is called on the controller, and what is told of it there.

    inputs    port of the policy → name there, and the elements that it is of that
    sizes     name there → how many numbers it has
    outputs   port of the policy → name there
    metadata  key → JSON
    unknown   ports for which the controller has no name
    """

    inputs: dict[str, tuple[str, slice]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, object] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)


def names_of(signature: Signature, robot: Robot, said: Mapping[str, str]) -> Names:
    """The names of every port; `said` are the properties of the policy's file."""
    names = Names()
    bases = json.loads(said.get("bases", "{}"))
    if bases:
        names.metadata["base_names"] = bases
    for port in signature.inputs:
        known = is_known(port.name)
        found = port.name if known else _input(port, robot, bases, said)
        if not is_known(found):
            names.unknown.append(port.name)
            continue
        _add_input(names, port, found, robot)
    for port in signature.outputs:
        found = port.name if is_known(port.name, output=True) else _output(port.name)
        if is_known(found, output=True):
            names.outputs[port.name] = found
            _add_targets(names, port, found, robot)
        elif port.name not in ("actions", "obs"):
            names.unknown.append(port.name)
    return names


def _input(port: Port, robot: Robot, bases: Mapping[str, str], said: Mapping[str, str]) -> str:
    """What the controller calls an input; empty where it has nothing like it."""
    if match := _JOINTS.fullmatch(port.name):
        return f"obj.{match['entity']}.joints.{match['kind']}"
    if (match := _FRAME.fullmatch(port.name)) and match["entity"] in bases:
        frame = match["frame"] or bases[match["entity"]]
        return f"obj.{match['entity']}.{frame}.{_FIELDS[match['field']]}"
    sensor: Mapping[str, str] = json.loads(said.get("sensors", "{}")).get(port.name, {})
    if sensor.get("type") in _IMU:
        return f"sensor.imu.{sensor['frame']}.{_IMU[sensor['type']]}"
    kind, _, name = port.name.partition(".")
    axes = [axis for axis, _ in dict(robot.commands).get(name, ())]
    if kind == "command" and _size(port) == len(_PLANAR) and set(axes) & set(_PLANAR):
        return f"cmd.se2_velocity.{name}"
    if kind == "command" and _size(port) == 1 and port.dtype in ("float32", "bool"):
        return f"cmd.{'float' if port.dtype == 'float32' else 'boolean'}.{name}"
    return ""


def _output(name: str) -> str:
    match = _TARGET.fullmatch(name)
    return f"output.joint_targets.{match['entity']}.{match['kind']}" if match else ""


def _add_input(names: Names, port: Port, found: str, robot: Robot) -> None:
    size, start = _size(port), names.sizes.get(found, 0)
    joints = JOINTS.fullmatch(found)
    if start and not joints:
        names.unknown.append(port.name)  # another port has that name
        return
    names.inputs[port.name] = (found, slice(start, start + size))
    names.sizes[found] = start + size
    if joints:
        listed: Any = names.metadata.setdefault(joints["group"], {"joint_names": []})
        own = list(port.about.elements) or list(robot.joints)
        # Joints that lie apart are ports of their own: each is one more element.
        listed["joint_names"] += [each for each in own if each not in listed["joint_names"]]
    elif found.startswith("cmd.se2_velocity."):
        ranges = dict(dict(robot.commands).get(found.rpartition(".")[2], ()))
        if set(_PLANAR) <= set(ranges):
            names.metadata[found] = {"ranges": {axis: ranges[axis] for axis in _PLANAR}}


def _add_targets(names: Names, port: Port, found: str, robot: Robot) -> None:
    match = JOINT_TARGETS.fullmatch(found)
    if match is None:
        return
    joints = tuple(port.about.elements) or robot.joints
    # An effort is all that its motor gets: a gain beside it would pull the joint to zero.
    pulled = match["kind"] != "effort" or match["group"] in names.metadata
    names.metadata[match["group"]] = {
        "type": "joint_targets",
        "names": list(joints),
        "stiffness": in_order(robot.stiffness if pulled else (), joints),
        "damping": in_order(robot.damping if pulled else (), joints),
    }


def zeros(names: Names) -> Iterator[tuple[str, int]]:
    """Targets that the controller writes and the policy does not give, with their sizes."""
    for group, kinds in missing_targets(names.outputs.values()).items():
        told = names.metadata[group]
        assert isinstance(told, dict)
        yield from ((f"{group}.{kind}", len(told["names"])) for kind in kinds)


def needs_gains(names: Names) -> bool:
    """Whether a position or a velocity is among the targets: the motors follow those by gains."""
    return any(each.endswith((".pos", ".vel")) for each in names.outputs.values())


def _size(port: Port) -> int:
    size = 1
    for dim in port.shape[1:]:
        size *= int(dim)
    return size
