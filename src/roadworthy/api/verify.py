"""`verify`: all the checks that what is at hand allows."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from roadworthy.errors import UsageError, need
from roadworthy.errors.progress import Progress, told
from roadworthy.errors.unforeseen import answers
from roadworthy.runtime.gym.closed_loop import ClosedLoop
from roadworthy.spec.bundle import Bundle, nearest, restored
from roadworthy.spec.certificate import Certificate
from roadworthy.verification.examine import examine

Env = str | Callable[[], Any] | ClosedLoop


@answers
def verify(
    path: str | os.PathLike[str],
    *,
    against: Any = None,
    normalizer: Any = None,
    env: Any = None,
    episodes: int | None = None,
    margin: float | None = None,
    seed: int = 0,
    trust: bool = False,
    device: str = "cpu",
    canary: bool = True,
    progress: Progress = None,
    **keywords: Any,
) -> Certificate:
    """The certificate of a bundle.

    Alone it replays the recorded steps and tests batches and resets, without PyTorch: the
    self-test on the robot. `against` is what the bundle was exported from, with the keywords that
    `rw.export` was given (`exploration=`, `actor=`, …); a plain module needs none, since the bundle
    knows how it was composed, except a `normalizer` that was a module. It adds fresh steps of the
    live original.

    A checkpoint is read as it was read at the export; with `trust` it is loaded by the installed
    framework, whose own `predict` is then what the bundle is compared with.

    `env` adds episodes in closed loop: a Gymnasium id, a function that makes an environment, or a
    `ClosedLoop`, which says more than `episodes` and `margin` do. Targets that are code are run
    with `trust` only, and those that do not run on `device` are left out; the certificate says so.
    `canary` is that of `rw.load`; `progress` that of `rw.export`.
    """
    if not Path(path).is_dir() and not restored(Path(path)):
        if not Path(path).exists():
            raise UsageError(f"{path} does not exist", hint=nearest(Path(path)))
        raise UsageError(
            f"{path} is not a bundle folder",
            hint="pass the folder: a lone .onnx has no recorded steps to compare with",
        )
    refuse_lonely(against, env, episodes=episodes, margin=margin)
    bundle = Bundle.open(path)
    given = keywords | ({} if normalizer is None else {"normalizer": normalizer})
    original = None
    if against is not None:
        need("torch", extra="export")
        from roadworthy.api.against import is_environment_of, original_for

        if env is not None and is_environment_of(against, env):
            _refuse_episodes(episodes=episodes, margin=margin)
            given, env = given | {"env": env}, None
        if trust and isinstance(against, (str, os.PathLike)):
            given = given | {"trust": True}
        original = original_for(bundle, against, given)
    elif keywords:
        raise UsageError(
            f"{', '.join(keywords)} given without the original",
            hint="pass the original too: rw.verify(…, against=policy)",
        )
    loop = _closed_loop(env, episodes=episodes, margin=margin)
    with told(progress) as say:
        return examine(
            bundle,
            original=original,
            loop=loop,
            seed=seed,
            trust=trust,
            device=device,
            canary=canary,
            progress=say,
        )


def refuse_lonely(against: Any, env: Any, **said: float | None) -> None:
    """An error for what was said of a closed loop that cannot be played."""
    changes = [key for key, value in said.items() if value is not None]
    if env is None and changes:
        raise UsageError(
            f"{' and '.join(changes)} given without an environment",
            hint="pass env='CartPole-v1', or a function that makes one",
        )
    if env is not None and against is None:
        raise UsageError(
            "env= compares the artifact with the original, and there is none",
            hint="rw.verify(…, against=module, env=…); `roadworthy run` plays the artifact alone",
        )


def _refuse_episodes(**said: float | None) -> None:
    """An error for episodes that would not be played: the environment is asked something else."""
    changes = [key for key, value in said.items() if value is not None]
    if changes:
        raise UsageError(
            f"{' and '.join(changes)}: no episodes are played in this environment, which only "
            "says what the policy sees",
            hint="rw.verify(…, against=rw.to_source(policy, env=env, exploration=…), "
            "env='CartPole-v1', episodes=20) plays in a Gymnasium environment",
        )


def _closed_loop(env: Env | None, **said: float | None) -> ClosedLoop | None:
    if env is None:
        return None
    changes: Mapping[str, Any] = {key: value for key, value in said.items() if value is not None}
    loop = env if isinstance(env, ClosedLoop) else ClosedLoop(env)
    return dataclasses.replace(loop, **changes)
