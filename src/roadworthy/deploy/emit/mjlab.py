"""mjlab: the metadata that its runners attach to an ONNX file, and the names of its ports.

Lists are joined by commas, lists in lists by semicolons. mjlab rounds to three decimals, which
turns small gains into zero; these numbers are not rounded.
"""

from __future__ import annotations

from collections.abc import Sequence

from roadworthy.deploy.emit import mjlab_environment
from roadworthy.deploy.emit.emission import Emission, lacking, plain_ports, refuse, robot_of
from roadworthy.deploy.emit.graph import renamed
from roadworthy.spec.bundle import Bundle
from roadworthy.spec.port import BATCH
from roadworthy.spec.robot import Robot, in_order

_ADDED = "a runtime of mjlab gives the motors default_joint_pos + action_scale × action"


def emission(bundle: Bundle) -> Emission:
    """policy.onnx with mjlab's metadata."""
    if bundle.signature.clock is not None:
        return mjlab_environment.emission(bundle)
    robot, signature = robot_of(bundle, "mjlab"), bundle.signature
    problems = lacking(robot, "stiffness", "damping", "default_position", "action", "observations")
    if len(signature.observed) != 1:
        problems.append(("its policies take one input, obs", "join the inputs in the module"))
    refuse("mjlab", [*problems, *_action_problems(robot), *plain_ports(bundle)])
    assert robot.action is not None
    (observed,) = signature.observed
    acted = robot.action.output
    names = {observed.name: "obs", acted: "actions"}
    graph = renamed(bundle, names, BATCH, acted)
    graph.metadata |= _metadata(robot, bundle.manifest["provenance"]["source"])
    return Emission(
        files={"policy.onnx": graph.bytes()},
        model="policy.onnx",
        feeds=lambda inputs: {"obs": inputs[observed.name]},
        given=lambda outputs: {acted: outputs["actions"]},
    )


def _action_problems(robot: Robot) -> list[tuple[str, str]]:
    action, problems = robot.action, []
    if action is None:
        return []
    if action.joints != robot.joints:
        what = "the action has another order than the joints, and the layout has one order for all"
        problems.append((what, "list joints in the order of the action's elements"))
    if action.applied_by == "policy":
        what = f"the policy gives targets already: {_ADDED}"
        problems.append((what, "export without the scaling step, and with applied_by: controller"))
    elif action.offset != robot.default_position:
        what = f"the offset of the action is not the default position: {_ADDED}"
        problems.append((what, "offset: default_position, if that is what training used"))
    return problems


def _metadata(robot: Robot, source: str) -> dict[str, str]:
    terms, action = robot.observations, robot.action
    assert action is not None
    listed: dict[str, Sequence[object]] = {
        "joint_names": robot.joints,
        "joint_stiffness": in_order(robot.stiffness, robot.joints),
        "joint_damping": in_order(robot.damping, robot.joints),
        "default_joint_pos": in_order(robot.default_position, robot.joints),
        "command_names": [name for name, _ in robot.commands],
        "observation_names": [term.name for term in terms],
        "observation_terms_scale": [
            term.scale if len(term.scale) > 1 else term.scale[0] for term in terms
        ],
        "observation_terms_flatten_history_dim": [1.0 for _ in terms],
        # mjlab's word for no history is 0.
        "observation_terms_history_length": [
            term.history if term.history > 1 else 0 for term in terms
        ],
        "observation_terms_clip": [term.clip or (float("-inf"), float("inf")) for term in terms],
        "action_scale": in_order(action.scale, action.joints, 1.0),
    }
    return {"run_path": source} | {
        key: ",".join(_entry(each) for each in values) for key, values in listed.items()
    }


def _entry(value: object) -> str:
    return ";".join(map(str, value)) if isinstance(value, tuple) else str(value)
