"""What a controller must know about the robot besides the ports, read from the simulation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from roadworthy.adapters.managers.dialect import GroupTerms


def metadata(env: Any, groups: Mapping[str, GroupTerms], names: Sequence[str]) -> dict[str, str]:
    """Every list beside the names that it goes by; numbers are not rounded."""
    facts: dict[str, Any] = {
        "physics_dt": env.physics_dt,
        "step_dt": env.step_dt,
        "actions": [_action(env, name) for name in env.action_manager.active_terms],
        "observations": [
            {"group": name, **_term(term)} for name in names for term in groups[name].terms
        ],
        "commands": list(env.command_manager.active_terms),
    }
    for name, entity in env.scene.entities.items():
        if entity.is_actuated:
            facts[f"robot.{name}"] = robot(env, entity)
    return {key: json.dumps(value) for key, value in facts.items()}


def robot(env: Any, entity: Any) -> dict[str, Any]:
    """Joints, their rest, and the gains and limits of the actuators that move them, by name."""
    model = env.sim.mj_model
    joints = list(entity.joint_names)
    rest = entity.data.default_joint_pos[0].tolist()
    found: dict[str, Any] = {
        "joints": joints,
        "motors": [],
        "default_position": dict(zip(joints, rest, strict=True)),
        "stiffness": {},
        "damping": {},
        "effort_limit": {},
    }
    for number, actuator in zip(
        entity.indexing.ctrl_ids.tolist(), entity.indexing.actuators or (), strict=True
    ):
        joint = actuator.target.rpartition("/")[2]
        # In the order of the actuators, which need not be that of the joints.
        found["motors"].append(joint)
        if joint in joints:
            found["stiffness"][joint] = float(model.actuator_gainprm[number, 0])
            found["damping"][joint] = float(-model.actuator_biasprm[number, 2])
            limit = model.actuator_forcerange[number, 1]
            if model.actuator_forcelimited[number]:
                found["effort_limit"][joint] = float(limit)
    return found


def _action(env: Any, name: str) -> dict[str, Any]:
    term = env.action_manager.get_term(name)
    said: dict[str, Any] = {"name": name, "entity": term.cfg.entity_name, "width": term.action_dim}
    targets = getattr(term, "target_names", None)
    if targets is None:
        return said
    said["targets"] = list(targets)
    for key in ("scale", "offset"):
        said[key] = dict(zip(targets, _row(getattr(term, key), len(targets)), strict=True))
    clip = getattr(term, "_clip", None)
    if isinstance(clip, torch.Tensor):
        said["clip"] = {
            t: [str(v) for v in c] for t, c in zip(targets, clip[0].tolist(), strict=True)
        }
    return said


def _row(value: Any, width: int) -> list[float]:
    """One number for each target: of a tensor with a row for each environment, or of one number."""
    if isinstance(value, torch.Tensor):
        return [float(each) for each in value[0].tolist()]
    return [float(value)] * width


def _term(term: Any) -> dict[str, Any]:
    return {
        "name": term.name,
        "shape": list(term.shape),
        "scale": term.scale,
        "clip": None if term.clip is None else [str(each) for each in term.clip],
        "history": term.history,
        "delay": list(term.delay),
    }
