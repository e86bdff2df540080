"""mjlab's registered tasks: the environment to play in, and the actor of a checkpoint."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from roadworthy.errors import Finding, UsageError, did_you_mean, need
from roadworthy.inspection.snapshot import preserved

# rsl_rl's older names for the parts of an actor-critic, and those of today.
_RENAMED = {"actor.": "mlp.", "actor_obs_normalizer.": "obs_normalizer."}
_DEVIATIONS = {"std": "distribution.std_param", "log_std": "distribution.log_std_param"}


def environment_of(task: str, motion_file: str | None = None) -> Any:
    """One environment of a task as it is played: on the CPU, without noise."""
    registry = _registry()
    _refuse_unknown(task, registry)
    cfg = registry.load_env_cfg(task, play=True)
    cfg.scene.num_envs = 1
    _set_motion(task, cfg, motion_file)
    environments: Any = need("mjlab.envs", extra="mjlab")
    # Tables about the environment would stand in the way of --json.
    with contextlib.redirect_stdout(sys.stderr):
        return environments.ManagerBasedRlEnv(cfg, device="cpu")


def actor_of(env: Any, checkpoint: Path, task: str | None) -> tuple[torch.nn.Module, float | None]:
    """The actor of a checkpoint as its task makes it, and how far the wrapper clips its actions."""
    if task is None:
        raise UsageError(
            "a checkpoint of rsl_rl holds weights, and does not say what is between them: layers, "
            "activation, normaliser, observation groups",
            where=checkpoint.name,
            hint="say the task it was trained for: task='Mjlab-…', or pass runner.alg.get_policy()",
        )
    registry = _registry()
    _refuse_unknown(task, registry)
    said = asdict(registry.load_rl_cfg(task))
    weights = actor_weights(checkpoint)
    model = _model(env, said)
    _refuse_other_layers(checkpoint, model, weights)
    model.load_state_dict(dict(weights))
    return model.eval(), said["clip_actions"]


def actor_weights(checkpoint: Path) -> Mapping[str, torch.Tensor]:
    """The actor's weights in a checkpoint, its normaliser included, under today's names."""
    if not checkpoint.is_file():
        raise UsageError(f"{checkpoint} does not exist", hint="check the path of the checkpoint")
    found: dict[str, torch.Tensor]
    held = torch.load(checkpoint, map_location="cpu", weights_only=True)
    if "actor_state_dict" in held:
        found = dict(held["actor_state_dict"])
    elif "model_state_dict" in held:
        found = {
            new + key.removeprefix(old): value
            for key, value in held["model_state_dict"].items()
            for old, new in _RENAMED.items()
            if key.startswith(old)
        }
        found |= {k: v for k, v in held["model_state_dict"].items() if k in _DEVIATIONS}
    else:
        raise UsageError(
            f"expected a checkpoint of rsl_rl with 'actor_state_dict', got {', '.join(held)}",
            where=checkpoint.name,
            hint="pass model_….pt as the runner saves it",
        )
    return {_DEVIATIONS.get(key, key): value for key, value in found.items()}


def _model(env: Any, said: dict[str, Any]) -> torch.nn.Module:
    """The actor as rsl_rl's runner makes it, without weights yet."""
    resolve = need("rsl_rl.utils", extra="mjlab").resolve_callable
    tensordict: Any = need("tensordict", extra="mjlab")
    options = {key: value for key, value in said["actor"].items() if value is not None}
    if options.get("rnn_type") is None:
        options = {key: value for key, value in options.items() if not key.startswith("rnn_")}
    with preserved(env):
        seen, _ = env.reset()
    obs = tensordict.TensorDict(seen, batch_size=[env.num_envs])
    groups = {name: list(each) for name, each in said["obs_groups"].items()}
    kind = resolve(options.pop("class_name"))
    model: torch.nn.Module = kind(
        obs, groups, "actor", env.action_manager.total_action_dim, **options
    )
    return model


def _refuse_other_layers(
    checkpoint: Path, model: torch.nn.Module, weights: Mapping[str, torch.Tensor]
) -> None:
    expected = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    got = {name: tuple(value.shape) for name, value in weights.items()}
    normalises = any(name.startswith("obs_normalizer.") for name in expected)
    saved = any(name.startswith("obs_normalizer.") for name in got)
    if normalises != saved:
        raise UsageError(
            "the task normalises its observations, and the checkpoint has no statistics"
            if normalises
            else "the checkpoint has the statistics of a normaliser, and the task has none",
            code="RW031",
            where=checkpoint.name,
            hint="export with the task and the settings that the checkpoint was trained with",
        )
    wrong = [name for name in {**expected, **got} if expected.get(name) != got.get(name)]
    if wrong:
        raise UsageError(
            findings=[
                Finding(
                    code=UsageError.code,
                    where=f"{checkpoint.name} {name}",
                    what=f"expected {expected.get(name, 'no such weights')}, got "
                    f"{got.get(name, 'none')}",
                    hint="the checkpoint was trained for another task, or with other layers",
                )
                for name in wrong
            ]
        )


def _set_motion(task: str, cfg: Any, motion_file: str | None) -> None:
    taking = [each for each in cfg.commands.values() if hasattr(each, "motion_file")]
    if motion_file is None and any(not each.motion_file for each in taking):
        raise UsageError(
            "the task tracks a motion, and none was given",
            where=task,
            hint="--motion-file motion.npz, as mjlab's csv_to_npz writes it",
        )
    if motion_file is not None and not taking:
        raise UsageError("the task tracks no motion", where=task, hint="leave --motion-file out")
    for each in taking:
        each.motion_file = motion_file or each.motion_file


def _registry() -> Any:
    need("mjlab.tasks", extra="mjlab")  # importing it registers the tasks
    return need("mjlab.tasks.registry", extra="mjlab")


def _refuse_unknown(task: str, registry: Any) -> None:
    known = registry.list_tasks()
    if task not in known:
        raise UsageError(
            f"mjlab has no task {task!r}", where="task", hint=did_you_mean(task, known)
        )
