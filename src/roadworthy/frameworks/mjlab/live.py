"""From what a user of mjlab holds to a source: an environment, its wrapper, or a runner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roadworthy.environment.source import EnvironmentSource
from roadworthy.errors import UsageError
from roadworthy.frameworks.managers import source_of
from roadworthy.frameworks.mjlab.dialect import MjlabDialect, Written
from roadworthy.frameworks.mjlab.tasks import actor_of


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """What was found in what the user holds."""

    env: Any
    clip_actions: float | None = None
    actor: Any = None


def describe(
    thing: Any,
    *,
    actor: Any = None,
    outputs: Written | Sequence[Written] = "targets",
    groups: tuple[str, ...] | None = None,
    task: str | None = None,
) -> EnvironmentSource:
    """The source of an environment with its actor: raw state in, targets of the joints out.

    `outputs="ctrl"` goes on to the simulator's controls, with the delays and laws of the actuators.
    `groups` are the observation groups of an actor that does not name them itself. The actor may be
    the path of a checkpoint; `task` then says for which task it was trained.
    """
    held = _opened(thing)
    if not isinstance(outputs, str) and len(outputs) == 1:  # as the command line says it
        outputs = outputs[0]
    if outputs not in ("targets", "ctrl"):
        raise UsageError(
            f"outputs={outputs!r}: expected 'targets' or 'ctrl'",
            hint="'targets' ends at the joint targets, 'ctrl' at the simulator's controls",
        )
    dialect = MjlabDialect(held.env, outputs)
    clip = held.clip_actions
    if isinstance(actor, (str, Path)):
        actor, said_clip = actor_of(held.env, Path(actor), task)
        clip = said_clip if clip is None else clip
    actor = held.actor if actor is None else actor
    return source_of(dialect, actor, groups=groups, clip_actions=clip)


def _opened(thing: Any) -> _Held:
    """The environment in a wrapper or a runner, and what those add to it."""
    if hasattr(thing, "alg") and hasattr(thing, "env"):
        return _Held(thing.env.unwrapped, thing.env.clip_actions, thing.alg.get_policy())
    if hasattr(thing, "clip_actions"):
        return _Held(thing.unwrapped, thing.clip_actions)
    return _Held(thing.unwrapped)
