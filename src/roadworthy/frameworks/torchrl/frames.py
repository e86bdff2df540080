"""For how many frames an action holds in a TorchRL environment, all its layers together."""

from __future__ import annotations

from typing import Any

from torchrl.envs import EnvBase

from roadworthy.runtime.gym.frame_skip import frame_skip_of


def frame_skip(env: EnvBase | None) -> int | None:
    """The frames of one action; None where neither TorchRL nor what it wraps says it.

    `GymEnv` makes ALE games with one frame for each action, whatever their id means elsewhere.
    """
    if env is None:
        return None
    base: Any = getattr(env, "base_env", env)
    own = frame_skip_of(getattr(base, "_env", None))
    repeats = int(getattr(base, "wrapper_frame_skip", 1))
    chain: Any = getattr(env, "transform", None) or ()
    for transform in getattr(chain, "transforms", [chain] if chain else []):
        if type(transform).__name__ == "FrameSkipTransform":
            repeats *= int(transform.frame_skip)
    return None if own is None and repeats == 1 else (own or 1) * repeats
