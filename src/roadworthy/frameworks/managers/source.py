"""A dialect and an actor as a source: the groups that the actor names, and nothing by hand."""

from __future__ import annotations

from typing import Any

import torch

from roadworthy.environment.source import EnvironmentSource
from roadworthy.errors import UsageError, did_you_mean
from roadworthy.frameworks.managers.actor import GroupActor
from roadworthy.frameworks.managers.dialect import Dialect
from roadworthy.frameworks.managers.environment import ManagedEnvironment


def source_of(
    dialect: Dialect,
    actor: Any,
    *,
    groups: tuple[str, ...] | None = None,
    clip_actions: float | None = None,
) -> EnvironmentSource:
    """The source of an environment with its actor; `groups` are for an actor that names none."""
    model = _model(actor)
    said = list(getattr(model, "obs_groups", ())) + list(getattr(model, "obs_groups_2d", ()))
    wanted = tuple(groups or said or _only(dialect))
    _refuse_unknown(dialect, wanted)
    environment = ManagedEnvironment(dialect, wanted)
    wrapped = GroupActor(model, environment.shapes(), by_name=bool(said), clip_actions=clip_actions)
    environment.register(wrapped)
    return EnvironmentSource(environment, wrapped)


def _model(actor: Any) -> torch.nn.Module:
    if actor is None:
        raise UsageError(
            "the actor is missing: an environment is exported together with it",
            where="actor",
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


def _only(dialect: Dialect) -> tuple[str, ...]:
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


def _refuse_unknown(dialect: Dialect, wanted: tuple[str, ...]) -> None:
    known = list(dialect.groups())
    for name in wanted:
        if name not in known:
            raise UsageError(
                f"the environment has no observation group {name!r}",
                where="groups",
                hint=did_you_mean(name, known),
            )
