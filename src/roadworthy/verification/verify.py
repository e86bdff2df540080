"""`verify`: all the checks that what is at hand allows."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

from roadworthy.errors import UsageError
from roadworthy.spec.bundle import Bundle
from roadworthy.verification.certificate import Certificate
from roadworthy.verification.examine import Progress, examine
from roadworthy.worlds.world import World


def verify(
    path: str | os.PathLike[str],
    *,
    against: Any = None,
    normalizer: Any = None,
    env: Any = None,
    episodes: int | None = None,
    seed: int = 0,
    trust: bool = False,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Certificate:
    """The certificate of a bundle.

    Alone it replays the recorded steps and tests batches and resets, without PyTorch: the
    self-test on the robot. `against` (a module, or a `Source`) adds fresh steps of the live
    original; `normalizer` is the module that was exported in front of it, if it was a module.
    `env` (a Gymnasium id, a function that makes an environment, or a `World`, which says more)
    adds episodes in closed loop. Targets that are code are run with `trust` only, and
    those that do not run on `device` are left out; the certificate says so.
    """
    if not Path(path).is_dir():
        raise UsageError(
            f"{path} is no bundle folder",
            hint="verify needs the folder: a lone .onnx carries no trace",
        )
    return examine(
        Bundle.open(path),
        against=against,
        normalizer=normalizer,
        world=_world(env, episodes, against),
        seed=seed,
        trust=trust,
        device=device,
        progress=progress,
    )


def _world(env: Any, episodes: int | None, against: Any) -> World | None:
    if env is None:
        if episodes is not None:
            raise UsageError("episodes of what?", hint="pass env='CartPole-v1', or a function")
        return None
    if against is None:
        raise UsageError(
            "an environment needs the original beside the artifact",
            hint="verify(…, against=module, env=…); `roadworthy run` plays the artifact alone",
        )
    world = env if isinstance(env, World) else World(env)
    return world if episodes is None else dataclasses.replace(world, episodes=episodes)
