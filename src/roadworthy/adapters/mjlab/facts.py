"""Facts about an environment for the properties of the file, as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from roadworthy.adapters.managers.dialect import GroupTerms, Term
from roadworthy.adapters.mjlab.robot import row


def metadata(env: Any, groups: Mapping[str, GroupTerms], names: Sequence[str]) -> dict[str, str]:
    """Rates, and how actions and observations are processed; numbers are not rounded."""
    facts: dict[str, Any] = {
        "physics_dt": env.physics_dt,
        "step_dt": env.step_dt,
        "actions": [_action(env, name) for name in env.action_manager.active_terms],
        "observations": [
            {"group": name, **_term(term)} for name in names for term in groups[name].terms
        ],
        "commands": list(env.command_manager.active_terms),
    }
    return {key: json.dumps(value) for key, value in facts.items()}


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
        "delay": list(term.delay),
    }
