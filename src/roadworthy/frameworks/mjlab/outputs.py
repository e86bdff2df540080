"""What the action terms of an environment write: found by writing, whatever their kind."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from roadworthy.frameworks.managers.dialect import Candidate
from roadworthy.frameworks.managers.named import NamedManagers
from roadworthy.frameworks.mjlab.state import array, elements
from roadworthy.spec.port import About

_TARGETS = {
    "joint_pos_target": "joint_names", "joint_vel_target": "joint_names",
    "joint_effort_target": "joint_names", "tendon_len_target": "tendon_names",
    "tendon_vel_target": "tendon_names", "tendon_effort_target": "tendon_names",
    "site_effort_target": "site_names",
}  # fmt: skip


def targets(dialect: NamedManagers) -> Iterator[Candidate]:
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
