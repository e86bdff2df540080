"""Exploy: the metadata that its controller reads beside the names of a whole environment's ports.

The controller knows its inputs and outputs by their names, so nothing is renamed: the bundle must
be one of an environment that was registered with Exploy's names.
"""

from __future__ import annotations

import json
import re

from roadworthy.emitting.emission import Emission, refuse, robot_of
from roadworthy.emitting.graph import Graph
from roadworthy.spec.bundle import Bundle
from roadworthy.spec.robot import Robot, in_order
from roadworthy.spec.signature import Signature

VERSION = "0.1.0"
_JOINTS = re.compile(r"(obj\.[A-Za-z0-9_.]+\.joints)\.(pos|vel)")
_TARGETS = re.compile(r"(output\.joint_targets\.[A-Za-z0-9_.]+)\.(pos|vel|effort)")


def emission(bundle: Bundle) -> Emission:
    """policy.onnx with Exploy's metadata."""
    robot, signature = robot_of(bundle, "exploy"), bundle.signature
    groups = _groups(robot, signature)
    problems = []
    if signature.clock != "ctx.step_count" or not any("output" in name for name in groups):
        lost = "ctx.step_count, output.joint_targets.NAME.pos"
        what = f"the controller runs whole environments, and the policy has no ports of one: {lost}"
        problems.append((what, "rw.export_environment(env, actor, …), registered with these names"))
    if not robot.stiffness or not robot.damping:
        problems.append(("the metadata has no stiffness or damping", "add both to robot.yaml"))
    if not signature.period_s:
        problems.append(("the policy has no period", "add period_s: 0.005 to the metadata"))
    refuse("exploy", problems)
    assert signature.period_s is not None
    graph = Graph(bundle, wrapped=False)
    own = {
        "exploy_version": json.dumps(VERSION),
        "model_source": json.dumps({"roadworthy": bundle.manifest["provenance"]["source"]}),
        "update_rate": str(round(1 / signature.period_s)),
        **{name: json.dumps(each) for name, each in groups.items()},
    }
    # What the environment itself registered stays as it said it.
    graph.metadata = own | graph.metadata
    return Emission(files={"policy.onnx": graph.bytes()}, model="policy.onnx")


def _groups(robot: Robot, signature: Signature) -> dict[str, dict[str, object]]:
    """Group of ports → what the controller is told of its joints."""
    found: dict[str, dict[str, object]] = {}
    for port in (*signature.inputs, *signature.outputs):
        joints = tuple(port.about.elements) or robot.joints
        if match := _JOINTS.fullmatch(port.name):
            found[match[1]] = {"joint_names": list(joints)}
        elif match := _TARGETS.fullmatch(port.name):
            found[match[1]] = {
                "names": list(joints),
                "stiffness": in_order(robot.stiffness, joints),
                "damping": in_order(robot.damping, joints),
            }
    return found
