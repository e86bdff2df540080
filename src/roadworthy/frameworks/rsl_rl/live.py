"""rsl_rl 5: a model, or the runner that trained it; the model's own call is captured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from roadworthy.capture.source import Source
from roadworthy.errors import UsageError
from roadworthy.frameworks.network.memory import start
from roadworthy.frameworks.rsl_rl.oracle import act_inference
from roadworthy.spec.port import About
from roadworthy.spec.transforms import ActionStep, Clip


def describe(
    policy: Any,
    *,
    example: Mapping[str, Tensor] | None = None,
    action: ActionStep | Sequence[ActionStep] = (),
    about: Mapping[str, About] | None = None,
    batch: int | None = None,
    period_s: float | None = None,
    ignore: Sequence[str] = (),
) -> Source:
    """The source of a model or a runner: one port for each observation group.

    A runner knows the groups and their sizes from its environment, and clips actions as the
    wrapper of the environment does; a model of several groups needs an example of each.
    """
    runner = policy if hasattr(policy, "alg") else None
    model = runner.alg.get_policy() if runner is not None else policy
    model = getattr(model, "_orig_mod", model)
    groups = [*model.obs_groups, *getattr(model, "obs_groups_2d", ())]
    observed = _observed(runner, model, groups) if example is None else example
    steps = tuple(action) if isinstance(action, (tuple, list)) else (action,)
    return Source(
        model,
        example={group: torch.as_tensor(observed[group])[:1].clone() for group in groups},
        memory=_memory(model),
        method=act_inference,
        action=(*_clip(runner), *steps),
        about=dict(about or {}),
        batch=batch,
        period_s=period_s,
        ignore=ignore,
    )


def _observed(runner: Any, model: Any, groups: Sequence[str]) -> Mapping[str, Tensor]:
    """An observation of every group: the environment's, or zeros where the model knows its size."""
    if runner is not None:
        observed: Mapping[str, Tensor] = runner.env.get_observations()
        return observed
    if len(groups) == 1 and not hasattr(model, "obs_groups_2d"):
        return {groups[0]: torch.zeros(1, model.obs_dim)}
    raise UsageError(
        f"the model reads {', '.join(groups)}, and does not say how long each is",
        where=type(model).__name__,
        hint="pass the runner, or an observation: example=env.get_observations()",
    )


def _memory(model: Any) -> dict[str, Tensor]:
    if not model.is_recurrent:
        return {}
    return start(model.rnn.rnn)


def _clip(runner: Any) -> tuple[ActionStep, ...]:
    """What the wrapper of the environment does to every action, where it says so."""
    limit = getattr(getattr(runner, "env", None), "clip_actions", None)
    return () if limit is None else (Clip(low=-float(limit), high=float(limit)),)
