"""What the action terms of an environment write: found by writing, whatever their kind."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from roadworthy.frameworks.managers.dialect import Candidate
from roadworthy.frameworks.mjlab.state import array, elements
from roadworthy.spec.port import About

_TARGETS = {
    "joint_pos_target": "joint_names", "joint_vel_target": "joint_names",
    "joint_effort_target": "joint_names", "tendon_len_target": "tendon_names",
    "tendon_vel_target": "tendon_names", "tendon_effort_target": "tendon_names",
    "site_effort_target": "site_names",
}  # fmt: skip


def targets(env: Any) -> list[Candidate]:
    """The targets that the action terms write, of those joints, tendons and sites alone."""
    return [*_targets(env)]


def _targets(env: Any) -> Iterator[Candidate]:
    held = {
        (name, field): getattr(entity.data, field)
        for name, entity in env.scene.entities.items()
        for field in _TARGETS
    }
    before = {key: value.clone() for key, value in held.items()}
    for value in held.values():
        value.fill_(float("nan"))
    env.action_manager.process_action(
        torch.zeros(env.num_envs, env.action_manager.total_action_dim)
    )
    env.action_manager.apply_action()
    written = {key: (~value.isnan()).all(dim=0) for key, value in held.items() if value.numel()}
    for key, value in held.items():
        value.copy_(before[key])
    for (name, field), mask in written.items():
        ids = mask.nonzero().flatten().tolist()
        if ids:
            entity = env.scene.entities[name]
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
