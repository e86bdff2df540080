"""What a controller must know besides the ports: the robot, and facts for the file as text."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch

from roadworthy.errors import need
from roadworthy.frameworks.managers.terms import GroupTerms, Term
from roadworthy.frameworks.mjlab.state import port_of
from roadworthy.spec.robot import JointAction, ObservationTerm, PerJoint, Range, Robot

# A gain in MuJoCo's affine actuators: force = gain × control + bias₁ × position + bias₂ × velocity.
_POSITION, _VELOCITY = 1, 2


def robot(
    env: Any,
    groups: Mapping[str, GroupTerms],
    names: Sequence[str],
    outputs: Mapping[str, Sequence[str]],
) -> Robot | None:
    """The robot that the actions move; every number beside the name of its joint, not rounded.

    `outputs` are the ports that the actions write, with the names of their elements. None where
    they move no joints, or those of several entities.
    """
    moved = {
        env.action_manager.get_term(n).cfg.entity_name for n in env.action_manager.active_terms
    }
    if len(moved) != 1:
        return None
    (name,) = moved
    entity = env.scene[name]
    joints = tuple(entity.joint_names)
    if not joints:
        return None
    gains = dict(_gains(env, entity))
    limits = {joint: limit for joint, (_, _, limit) in gains.items() if limit}
    motors = tuple(gains)
    return Robot(
        joints=joints,
        # A robot with a joint that nothing moves has no list of motors that names them all.
        motors=motors if set(motors) == set(joints) else (),
        default_position=_by_name(joints, entity.data.default_joint_pos[0]),
        stiffness=_unless_none((joint, gains.get(joint, _NONE)[0]) for joint in joints),
        damping=_unless_none((joint, gains.get(joint, _NONE)[1]) for joint in joints),
        effort_limit=tuple((joint, limits[joint]) for joint in joints)
        if set(limits) == set(joints)
        else (),
        action=_action(env, name, outputs),
        observations=tuple(_terms(groups, names)),
        commands=tuple(_commands(env)),
    )


_NONE: tuple[float | None, float | None, float | None] = (None, None, None)


def _gains(
    env: Any, entity: Any
) -> Iterator[tuple[str, tuple[float | None, float | None, float | None]]]:
    """Joint → stiffness, damping and effort limit, in the order of the actuators.

    That need not be the order of the joints. What is zero or without limit is None.
    """
    model = env.sim.mj_model
    explicit = dict(_explicit(entity))
    numbers = entity.indexing.ctrl_ids.tolist()
    for number, actuator in zip(numbers, entity.indexing.actuators or (), strict=True):
        joint = actuator.target.rpartition("/")[2]
        if joint not in entity.joint_names:
            continue  # a tendon, or a site
        if joint in explicit:
            yield joint, explicit[joint]
            continue
        bias = model.actuator_biasprm[number]
        limited = bool(model.actuator_forcelimited[number])
        limit = float(model.actuator_forcerange[number, 1]) if limited else None
        yield joint, (_or_none(-bias[_POSITION]), _or_none(-bias[_VELOCITY]), limit)


def _explicit(entity: Any) -> Iterator[tuple[str, tuple[float | None, float | None, float | None]]]:
    """The gains of actuators that mjlab computes itself: the simulator sees their effort alone."""
    for actuator in entity.actuators:
        said = (getattr(actuator, key, None) for key in ("stiffness", "damping", "force_limit"))
        held = [each for each in said if isinstance(each, torch.Tensor)]
        if len(held) == len(_NONE):
            rows = [each[0].tolist() for each in held]
            for joint, *numbers in zip(actuator.target_names, *rows, strict=True):
                stiffness, damping, limit = map(_or_none, numbers)
                yield joint, (stiffness, damping, limit)


def _action(env: Any, name: str, outputs: Mapping[str, Sequence[str]]) -> JointAction | None:
    """What the elements of the target mean: the policy scales itself, and its output is it."""
    ports = [port for port in outputs if port.startswith(f"{name}.joint_")]
    if len(ports) != 1:
        return None
    joints = tuple(outputs[ports[0]])
    scale: dict[str, float] = {}
    offset: dict[str, float] = {}
    for each in env.action_manager.active_terms:
        term = env.action_manager.get_term(each)
        targets = getattr(term, "target_names", None)
        if targets is None:
            return JointAction(joints=joints, output=ports[0], applied_by="policy")
        scale |= zip(targets, row(term.scale, len(targets)), strict=True)
        offset |= zip(targets, row(term.offset, len(targets)), strict=True)
    said = set(joints) <= set(scale) and all(scale[joint] for joint in joints)
    return JointAction(
        joints=joints,
        output=ports[0],
        scale=tuple((joint, scale[joint]) for joint in joints) if said else (),
        offset=tuple((joint, offset[joint]) for joint in joints) if said else (),
        applied_by="policy",
    )


def _terms(groups: Mapping[str, GroupTerms], names: Sequence[str]) -> Iterator[ObservationTerm]:
    for group in names:
        for term in groups[group].terms:
            frames = max(1, term.history)
            scale = (1.0,) if term.scale is None else term.scale
            yield ObservationTerm(
                name=term.name if len(names) == 1 else f"{group}.{term.name}",
                size=math.prod(term.shape) // frames,
                scale=scale if isinstance(scale, tuple) else (scale,),
                clip=_clip(term),
                history=frames,
            )


def _clip(term: Term) -> Range | None:
    if term.clip is None or not all(map(math.isfinite, term.clip)):
        return None
    return float(term.clip[0]), float(term.clip[1])


def _commands(env: Any) -> Iterator[tuple[str, tuple[tuple[str, Range], ...]]]:
    """Name → axis → the range that was trained, where the command says it."""
    for name in env.command_manager.active_terms:
        ranges = getattr(env.command_manager.get_term(name).cfg, "ranges", None)
        listed = fields(ranges) if is_dataclass(ranges) else ()
        found = ((each.name, getattr(ranges, each.name)) for each in listed)
        yield name, tuple((axis, (float(r[0]), float(r[1]))) for axis, r in found if _is_range(r))


def _is_range(value: Any) -> bool:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        return False
    return all(isinstance(v, (int, float)) and math.isfinite(v) for v in value) and (
        value[0] < value[1]
    )


def _unless_none(gains: Iterator[tuple[str, float | None]]) -> PerJoint:
    """The gains, where any joint has one: motors that take an effort have none."""
    found = tuple(gains)
    return found if any(gain is not None for _, gain in found) else ()


def _by_name(joints: Sequence[str], row: torch.Tensor) -> PerJoint:
    return tuple(zip(joints, row.tolist(), strict=True))


def row(value: Any, width: int) -> list[float]:
    """One number for each target: of a tensor with a row for each environment, or of one number."""
    if isinstance(value, torch.Tensor):
        return [float(each) for each in value[0].tolist()]
    return [float(value)] * width


def _or_none(value: Any) -> float | None:
    return float(value) if value > 0 and math.isfinite(value) else None


def metadata(env: Any, groups: Mapping[str, GroupTerms], names: Sequence[str]) -> dict[str, str]:
    """Rates, and how actions and observations are processed; numbers are not rounded."""
    facts: dict[str, Any] = {
        "physics_dt": env.physics_dt,
        "step_dt": env.step_dt,
        "actions": [_action_facts(env, name) for name in env.action_manager.active_terms],
        "observations": [
            {"group": name, **_term_facts(term)} for name in names for term in groups[name].terms
        ],
        "groups": [{"name": name, "shape": list(groups[name].shape)} for name in names],
        "commands": list(env.command_manager.active_terms),
        "bases": {name: _short(each.root_body.name) for name, each in env.scene.entities.items()},
        "sensors": dict(_sensors(env)),
    }
    return {key: json.dumps(value) for key, value in facts.items()}


def _sensors(env: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """Port → what MuJoCo measures there: its word for the kind, and the frame that it is in."""
    mujoco: Any = need("mujoco", extra="mjlab")
    model = env.sim.mj_model
    for name in env.scene.sensors:
        number = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SENSOR, name)
        if number < 0:
            continue  # of mjlab's own, such as a ray caster
        kind = mujoco.mjtSensor(model.sensor_type[number]).name.removeprefix("mjSENS_").lower()
        holder = mujoco.mj_id2name(model, model.sensor_objtype[number], model.sensor_objid[number])
        yield port_of(name), {"type": kind, "frame": _short(holder or "")}


def _short(name: str) -> str:
    """A name without the entity that it belongs to."""
    return name.rpartition("/")[2]


def _action_facts(env: Any, name: str) -> dict[str, Any]:
    term = env.action_manager.get_term(name)
    said: dict[str, Any] = {"name": name, "entity": term.cfg.entity_name, "width": term.action_dim}
    targets = getattr(term, "target_names", None)
    if targets is None:
        return said
    said["targets"] = list(targets)
    for key in ("scale", "offset"):
        said[key] = dict(zip(targets, row(getattr(term, key), len(targets)), strict=True))
    clip = getattr(term, "_clip", None)
    if isinstance(clip, torch.Tensor):
        said["clip"] = {
            t: [str(v) for v in c] for t, c in zip(targets, clip[0].tolist(), strict=True)
        }
    return said


def _term_facts(term: Term) -> dict[str, Any]:
    return {
        "name": term.name,
        "shape": list(term.shape),
        "scale": term.scale,
        "clip": None if term.clip is None else [str(each) for each in term.clip],
        "history": term.history,
        "flattened": term.flattened,
        "delay": list(term.delay),
    }
