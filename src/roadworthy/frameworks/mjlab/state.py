"""What of a simulation may be a port: joints, bodies, sensors and commands, and what actions write.

Everything is a view of the simulator's own memory, so that what is written into it is seen.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from roadworthy.frameworks.managers.dialect import Dialect
from roadworthy.frameworks.managers.terms import Candidate
from roadworthy.spec.port import About

# Field of the simulation → what a port of it is called, and what it is.
_BODY = {
    "xpos": ("pos", "position in the world", "m"),
    "xquat": ("quat", "orientation in the world, w x y z", ""),
    "xipos": ("com_pos", "position of the centre of mass in the world", "m"),
    "cvel": ("cvel", "angular and linear velocity about the subtree's centre of mass", ""),
    "subtree_com": ("subtree_com", "centre of mass of the subtree in the world", "m"),
    "xfrc_applied": ("wrench", "force and torque from outside", ""),
}
_SITE = {
    "site_xpos": ("pos", "position in the world", "m"),
    "site_xmat": ("mat", "orientation in the world as a matrix", ""),
}
_GEOM = {
    "geom_xpos": ("pos", "position in the world", "m"),
    "geom_xmat": ("mat", "orientation in the world as a matrix", ""),
}
_DOF = {
    "qvel": ("joint_vel", "velocities of the joints"),
    "qacc": ("joint_acc", "accelerations of the joints"),
    "qfrc_actuator": ("joint_effort", "efforts of the actuators at the joints"),
}

_TARGETS = {
    "joint_pos_target": "joint_names", "joint_vel_target": "joint_names",
    "joint_effort_target": "joint_names", "tendon_len_target": "tendon_names",
    "tendon_vel_target": "tendon_names", "tendon_effort_target": "tendon_names",
    "site_effort_target": "site_names",
}  # fmt: skip


def inputs(env: Any) -> list[Candidate]:
    """Everything that a robot or the world could tell, what is preferred first."""
    found: list[Candidate] = []
    for name, entity in env.scene.entities.items():
        found += _joints(env, name, entity)
        found += _frames(env, name, entity)
    for name, sensor in env.scene.sensors.items():
        found += _sensor(name, sensor)
    found += _commands(env)
    found.append(Candidate("episode_step", lambda: env.episode_length_buf))
    # Whatever else the simulator computes, under MuJoCo's own name.
    for field in list(vars(env.sim.data)["_wrapped_cache"]):
        if _is_tensor(env, field):
            found.append(Candidate(f"sim.{field}", partial(array, env, field)))
    return found


def randomised(env: Any) -> list[Candidate]:
    """The fields of the model that events draw anew: they differ from the robot's own."""
    fields = sorted(set(env.event_manager.domain_randomization_fields))
    found = []
    for field in fields:
        held = getattr(getattr(env.sim.model, field, None), "_tensor", None)
        if isinstance(held, torch.Tensor) and held.numel():
            found.append(Candidate(f"sim.model.{field}", partial(_model_array, env, field)))
    return found


def _model_array(env: Any, field: str) -> torch.Tensor:
    tensor: torch.Tensor = getattr(env.sim.model, field)._tensor
    return tensor


def array(env: Any, field: str) -> torch.Tensor:
    """The simulator's memory for a field, as PyTorch sees it."""
    tensor: torch.Tensor = getattr(env.sim.data, field)._tensor
    return tensor


def _is_tensor(env: Any, field: str) -> bool:
    held = getattr(getattr(env.sim.data, field), "_tensor", None)
    return isinstance(held, torch.Tensor) and held.ndim > 0 and held.numel() > 0


def elements(tensor: torch.Tensor, ids: Sequence[int]) -> torch.Tensor:
    """The chosen elements of the second axis: a view where they lie side by side."""
    if is_run(ids):
        return tensor[:, ids[0] : ids[0] + len(ids)]
    return tensor[:, list(ids)]


def is_run(ids: Sequence[int]) -> bool:
    return list(ids) == list(range(ids[0], ids[0] + len(ids)))


def _joints(env: Any, name: str, entity: Any) -> Iterator[Candidate]:
    index, names = entity.indexing, list(entity.joint_names)
    fields = {"qpos": ("joint_pos", "positions of the joints", index.joint_q_adr)}
    fields |= {field: (*said, index.joint_v_adr) for field, said in _DOF.items()}
    for field, (short, description, where) in fields.items():
        ids = where.tolist()
        if len(ids) != len(names) or not ids:
            continue  # a ball joint has more numbers than names
        if is_run(ids):
            about = About(description=f"{description} of {name}", elements=names)
            yield Candidate(f"{name}.{short}", partial(_part, env, field, tuple(ids)), about)
            continue
        for joint, each in zip(names, ids, strict=True):
            about = About(description=f"{description} of {name}", elements=(joint,))
            yield Candidate(f"{name}.{short}.{joint}", partial(_part, env, field, (each,)), about)
    for field, short, free in (
        ("qpos", "free_joint_pos", index.free_joint_q_adr),
        ("qvel", "free_joint_vel", index.free_joint_v_adr),
    ):
        if free.numel():
            yield Candidate(f"{name}.{short}", partial(_part, env, field, tuple(free.tolist())))


def _part(env: Any, field: str, ids: tuple[int, ...]) -> torch.Tensor:
    return elements(array(env, field), ids)


def _frames(env: Any, name: str, entity: Any) -> Iterator[Candidate]:
    """Bodies, sites and geoms, one port each: code picks a few of many."""
    index = entity.indexing
    kinds: tuple[tuple[str, Mapping[str, tuple[str, str, str]], Any, Sequence[str]], ...] = (
        ("body", _BODY, index.body_ids, entity.body_names),
        ("site", _SITE, index.site_ids, entity.site_names),
        ("geom", _GEOM, index.geom_ids, entity.geom_names),
    )
    for kind, fields, ids, names in kinds:
        for place, (number, frame) in enumerate(zip(ids.tolist(), names, strict=True)):
            for field, (short, description, unit) in fields.items():
                root = kind == "body" and place == 0
                port = f"{name}.root_{short}" if root else f"{name}.{kind}.{frame}.{short}"
                about = About(description=f"{description} of {frame}", unit=unit)
                yield Candidate(port, partial(_frame, env, field, number), about)


def _frame(env: Any, field: str, number: int) -> torch.Tensor:
    return array(env, field)[:, number]


def port_of(sensor: str) -> str:
    """What the port of a sensor is called."""
    return f"sensor.{sensor.replace('/', '.')}"


def _sensor(name: str, sensor: Any) -> Iterator[Candidate]:
    """What a sensor publishes: one tensor, or a tensor in each field of its data."""
    data = sensor.data
    said = port_of(name)
    if isinstance(data, torch.Tensor):
        yield Candidate(said, lambda: sensor.data)
        return
    fields = (
        [each.name for each in dataclasses.fields(data)]
        if dataclasses.is_dataclass(data)
        else list(vars(data))
    )
    for field in fields:
        if isinstance(getattr(data, field), torch.Tensor):
            yield Candidate(f"{said}.{field}", partial(_field, sensor, field))


def _field(sensor: Any, field: str) -> torch.Tensor:
    found: torch.Tensor = getattr(sensor.data, field)
    return found


def _commands(env: Any) -> Iterator[Candidate]:
    """What a command term keeps: its command, or what it makes the command of."""
    for name in env.command_manager.active_terms:
        term = env.command_manager.get_term(name)
        held = {k: v for k, v in vars(term).items() if isinstance(v, torch.Tensor)}
        command = term.command
        for attribute, value in sorted(held.items(), key=lambda each: each[1] is not command):
            said = f"command.{name}"
            port = said if value is command else f"{said}.{attribute.strip('_')}"
            read: Callable[[], torch.Tensor] = partial(getattr, term, attribute)
            # A choice among things is made anew; a table of their numbers is not.
            yield Candidate(port, read, table=not value.is_floating_point())


def targets(dialect: Dialect) -> Iterator[Candidate]:
    """The targets that the action terms write, of those joints, tendons and sites alone."""
    entities = dialect.env.scene.entities
    held = {
        (name, field): getattr(entity.data, field)
        for name, entity in entities.items()
        for field in _TARGETS
    }
    for (name, field), ids in dialect.written_by_actions(held).items():
        if ids:
            entity = entities[name]
            names = [getattr(entity, _TARGETS[field])[each] for each in ids]
            about = About(description=f"{field.replace('_', ' ')}s of {name}", elements=names)
            yield Candidate(f"{name}.{field}", partial(_written, entity, field, tuple(ids)), about)


def _written(entity: Any, field: str, ids: tuple[int, ...]) -> torch.Tensor:
    return elements(getattr(entity.data, field), ids)


def controls(env: Any) -> list[Candidate]:
    """The controls of each actuated entity, in the order of its actuators."""
    found = []
    for name, entity in env.scene.entities.items():
        if entity.is_actuated:
            ids = tuple(entity.indexing.ctrl_ids.tolist())
            about = About(description=f"controls of {name}", elements=list(entity.actuator_names))
            found.append(Candidate(f"{name}.ctrl", partial(_controls, env, ids), about))
    return found


def _controls(env: Any, ids: tuple[int, ...]) -> torch.Tensor:
    return elements(array(env, "ctrl"), ids)
