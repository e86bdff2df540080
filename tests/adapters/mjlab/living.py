"""mjlab's own step beside a file, compared by means of mjlab's public names alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import roadworthy as rw


@dataclass
class Compared:
    worst: float = 0.0
    steps: int = 0
    resets: int = 0


def compare(env: Any, model: torch.nn.Module, folder: Any, steps: int) -> Compared:
    """The largest difference of any target and any action in so many steps, resets included."""
    policy = rw.load(folder)
    found = Compared()
    actions = env.action_manager
    applied = actions.apply_action
    first = True

    def applying() -> None:
        nonlocal first
        got = policy.step({p.name: value(env, p.name) for p in policy.signature.inputs})
        applied()
        for port in policy.signature.outputs:
            if port.name.endswith("_target"):
                expected = target(env, port.name, port.about.elements)
                found.worst = max(found.worst, float(np.abs(got[port.name] - expected).max()))
        if first:
            acted = got["actions"] - actions.action.numpy()
            found.worst = max(found.worst, float(np.abs(acted).max()))
        first = False

    # A robot's encoders are right: the file leaves out what a start-up event drew for training.
    for entity in env.scene.entities.values():
        if hasattr(entity.data, "encoder_bias"):
            entity.data.encoder_bias.zero_()
    actions.apply_action = applying
    try:
        with torch.inference_mode():
            obs, _ = env.reset()
            policy.reset()
            for _ in range(steps):
                first = True
                obs, _, ended, timed_out, _ = env.step(model(obs))
                found.steps += 1
                if bool((ended | timed_out).any()):
                    found.resets += 1
                    policy.reset()
    finally:
        del actions.apply_action
    return found


def value(env: Any, name: str) -> np.ndarray:
    """What mjlab's documentation says that a port of this name is."""
    kind, _, rest = name.partition(".")
    if kind == "sensor":
        for sensor in env.scene.sensors:
            said = sensor.replace("/", ".")
            if rest == said:
                return np.asarray(env.scene[sensor].data.numpy())
            if rest.startswith(f"{said}."):
                field = rest.removeprefix(f"{said}.")
                return np.asarray(getattr(env.scene[sensor].data, field).numpy())
    if kind == "command":
        command, _, attribute = rest.partition(".")
        if attribute:
            term = env.command_manager.get_term(command)
            own = attribute if hasattr(term, attribute) else f"_{attribute}"  # ports drop the mark
            return np.asarray(getattr(term, own).numpy())
        return np.asarray(env.command_manager.get_command(command).numpy())
    data = env.scene[kind].data
    names = {"root_quat": "root_link_quat_w", "root_pos": "root_link_pos_w"}
    if rest in ("joint_pos", "joint_vel", *names):
        return np.asarray(getattr(data, names.get(rest, rest)).numpy())
    return framed(env, kind, rest)


def framed(env: Any, entity: str, rest: str) -> np.ndarray:
    """A body or a site: `site.grasp.pos`."""
    fields = {"pos": "xpos", "quat": "xquat", "cvel": "cvel", "subtree_com": "subtree_com"}
    if rest.startswith("root_"):
        number = env.scene[entity].indexing.root_body_id
        return np.asarray(getattr(env.sim.data, fields[rest[5:]])[:, number].numpy())
    kind, frame, field = rest.split(".")
    found = env.scene[entity]
    names, ids = getattr(found, f"{kind}_names"), getattr(found.indexing, f"{kind}_ids")
    number = int(ids[names.index(frame)])
    field = f"site_x{field}" if kind == "site" else fields[field]
    return np.asarray(getattr(env.sim.data, field)[:, number].numpy())


def target(env: Any, name: str, elements: Any) -> np.ndarray:
    entity, _, field = name.partition(".")
    found = env.scene[entity]
    names = list(found.joint_names)
    return np.asarray(getattr(found.data, field)[:, [names.index(e) for e in elements]].numpy())
