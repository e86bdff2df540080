"""From what a user of mjlab holds to a source: an environment, its wrapper, or a runner."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from roadworthy.adapters.managers import GroupActor, ManagedEnvironment
from roadworthy.adapters.mjlab.dialect import MjlabDialect, Written
from roadworthy.adapters.mjlab.tasks import actor_of
from roadworthy.environment.source import EnvironmentSource
from roadworthy.errors import UsageError, did_you_mean


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
    outputs: Written = "targets",
    groups: tuple[str, ...] | None = None,
    task: str | None = None,
) -> EnvironmentSource:
    """The source of an environment with its actor: raw state in, targets of the joints out.

    `outputs="ctrl"` goes on to the simulator's controls, with the delays and laws of the actuators.
    `groups` are the observation groups of an actor that does not name them itself. The actor may be
    the path of a checkpoint; `task` then says for which task it was trained.
    """
    held = _opened(thing)
    if isinstance(outputs, list) and len(outputs) == 1:  # as the command line says it
        (outputs,) = outputs
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
    model = _model(actor if actor is not None else held.actor, thing)
    said = list(getattr(model, "obs_groups", ())) + list(getattr(model, "obs_groups_2d", ()))
    wanted = tuple(groups or said or _only(dialect))
    _refuse_unknown(dialect, wanted)
    environment = ManagedEnvironment(dialect, wanted)
    wrapped = GroupActor(model, environment.shapes(), by_name=bool(said), clip_actions=clip)
    environment.register(wrapped)
    return EnvironmentSource(environment, wrapped)


def _opened(thing: Any) -> _Held:
    """The environment in a wrapper or a runner, and what those add to it."""
    if hasattr(thing, "alg") and hasattr(thing, "env"):
        return _Held(thing.env.unwrapped, thing.env.clip_actions, thing.alg.get_policy())
    if hasattr(thing, "clip_actions"):
        return _Held(thing.unwrapped, thing.clip_actions)
    return _Held(thing.unwrapped)


def _model(actor: Any, thing: Any) -> torch.nn.Module:
    if actor is None:
        raise UsageError(
            "the actor is missing: an environment is exported together with it",
            where=type(thing).__name__,
            hint="rw.export_environment(env, actor, folder); runner.alg.get_policy() is one",
        )
    # What a runner hands out for inference may be a bound method of the model.
    model = getattr(actor, "__self__", actor)
    if not isinstance(model, torch.nn.Module):
        raise UsageError(
            f"the actor is a {type(actor).__name__}, expected a torch.nn.Module",
            where="actor",
            hint="pass runner.alg.get_policy(), or the path of a checkpoint",
        )
    return model


def _only(dialect: MjlabDialect) -> tuple[str, ...]:
    """The group of an actor that names none: by its usual names."""
    known = dialect.groups()
    for name in ("actor", "policy"):
        if name in known:
            return (name,)
    raise UsageError(
        f"the actor does not say which observation groups it takes; there are {', '.join(known)}",
        where="groups",
        hint=f"pass groups=({next(iter(known))!r},)",
    )


def _refuse_unknown(dialect: MjlabDialect, wanted: tuple[str, ...]) -> None:
    known = list(dialect.groups())
    for name in wanted:
        if name not in known:
            raise UsageError(
                f"the environment has no observation group {name!r}",
                where="groups",
                hint=did_you_mean(name, known),
            )
