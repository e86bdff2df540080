"""Facts about an environment for the properties of the file, as text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from roadworthy.errors import need
from roadworthy.frameworks.managers.dialect import GroupTerms, Term
from roadworthy.frameworks.mjlab.robot import row
from roadworthy.frameworks.mjlab.state import port_of


def metadata(env: Any, groups: Mapping[str, GroupTerms], names: Sequence[str]) -> dict[str, str]:
    """Rates, and how actions and observations are processed; numbers are not rounded."""
    facts: dict[str, Any] = {
        "physics_dt": env.physics_dt,
        "step_dt": env.step_dt,
        "actions": [_action(env, name) for name in env.action_manager.active_terms],
        "observations": [
            {"group": name, **_term(term)} for name in names for term in groups[name].terms
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


def _action(env: Any, name: str) -> dict[str, Any]:
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


def _term(term: Term) -> dict[str, Any]:
    return {
        "name": term.name,
        "shape": list(term.shape),
        "scale": term.scale,
        "clip": None if term.clip is None else [str(each) for each in term.clip],
        "history": term.history,
        "flattened": term.flattened,
        "delay": list(term.delay),
    }
