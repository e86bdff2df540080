"""unitree_rl_lab: `params/deploy.yaml` beside `exported/policy.onnx`, as its controllers read them.

Their own exporter rounds to three digits; these numbers are not rounded. Gains stand in the order
of the motors, positions in that of the joints: the names of both stand beside them.
"""

from __future__ import annotations

from typing import Any

from roadworthy.deploy.emit.emission import Emission, lacking, plain_ports, refuse, robot_of
from roadworthy.deploy.emit.graph import renamed
from roadworthy.errors import need
from roadworthy.spec.bundle import Bundle
from roadworthy.spec.robot import ObservationTerm, Robot, in_order

_MODEL, _SIDECAR = "exported/policy.onnx", "params/deploy.yaml"
# The one that takes the name of a command.
_COMMANDED = "velocity_commands"


def emission(bundle: Bundle) -> Emission:
    """The files of unitree_rl_lab."""
    robot, signature = robot_of(bundle, "unitree"), bundle.signature
    problems = lacking(
        robot, "motors", "stiffness", "damping", "default_position", "action", "observations"
    )
    if not signature.period_s:
        problems.append(("the policy has no period", "add period_s: 0.02 to the metadata"))
    if len(signature.observed) != 1:
        problems.append(("the controller gives one input, obs", "join the inputs in the module"))
    refuse("unitree", [*problems, *plain_ports(bundle)])
    assert robot.action is not None
    (observed,) = signature.observed
    acted = robot.action.output
    names = {observed.name: "obs", acted: "actions"}
    # The controller multiplies the sizes that the file declares: an open one would be −1.
    graph = renamed(bundle, names, 1, acted)
    yaml: Any = need("yaml", extra="export")
    text = yaml.safe_dump(
        _deploy(robot, signature.period_s), default_flow_style=None, sort_keys=False
    )
    return Emission(
        files={_MODEL: graph.bytes(), _SIDECAR: text.encode()},
        model=_MODEL,
        feeds=lambda inputs: {"obs": inputs[observed.name]},
        given=lambda outputs: {acted: outputs["actions"]},
    )


def _deploy(robot: Robot, period_s: float | None) -> dict[str, Any]:
    action = robot.action
    assert action is not None
    by_policy = action.applied_by == "policy"
    ids = [robot.joints.index(name) for name in action.joints]
    return {
        "joint_names": list(robot.joints),
        "motor_names": list(robot.motors),
        "joint_ids_map": [robot.motors.index(name) for name in robot.joints],
        "step_dt": period_s,
        "stiffness": in_order(robot.stiffness, robot.motors),
        "damping": in_order(robot.damping, robot.motors),
        "default_joint_pos": in_order(robot.default_position, robot.joints),
        "commands": {
            name: {"ranges": {axis: list(limits) for axis, limits in axes}}
            for name, axes in robot.commands
        },
        "actions": {
            "JointPositionAction": {
                "clip": None,
                "joint_names": list(action.joints),
                "scale": [1.0 if by_policy else each
                          for each in in_order(action.scale, action.joints, 1.0)],
                "offset": [0.0 if by_policy else each
                           for each in in_order(action.offset, action.joints)],
                "joint_ids": None if action.joints == robot.joints else ids,
            }
        },
        "observations": {term.name: _term(term, robot) for term in robot.observations},
    }  # fmt: skip


def _term(term: ObservationTerm, robot: Robot) -> dict[str, Any]:
    commanded = term.name == _COMMANDED and len(robot.commands) == 1
    return {
        "params": {"command_name": robot.commands[0][0]} if commanded else {},
        "clip": list(term.clip) if term.clip else None,
        "scale": list(term.scale) * (term.size if len(term.scale) == 1 else 1),
        "history_length": term.history,
    }
