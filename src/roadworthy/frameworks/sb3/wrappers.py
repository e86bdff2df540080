"""The wrappers around the environment of a model: those that change what it sees or does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.errors import UsageError, need
from roadworthy.spec.transforms import EpsInsideRoot

NORMALIZE = "NormalizeObservation"
NORMALIZING = ("VecNormalize", NORMALIZE)
# Those of Stable-Baselines3 that are rebuilt, or that change nothing.
_KNOWN = ("VecFrameStack", "VecTransposeImage", "VecMonitor", "VecCheckNan", "VecVideoRecorder")
_HINT = (
    "pass the statistics of the one that counts: normalizer=rw.EpsInsideRoot(mean=rms.mean, "
    "var=rms.var, eps=wrapper.epsilon); vecnormalize='none' where you normalise yourself"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Inside:
    """What Gymnasium's NormalizeObservation does, and the observation in front of it."""

    formula: EpsInsideRoot
    space: Any


def chain_of(env: Any) -> list[Any]:
    """The vectorised environment and all that is around it, the outermost first."""
    found = []
    while env is not None:
        found.append(env)
        env = getattr(env, "venv", None)
    return found


def single(env: Any) -> Iterator[Any]:
    """The wrappers around one environment of Gymnasium, the outermost first."""
    while (inner := getattr(env, "env", None)) is not None:
        yield env
        env = inner


def changing(chain: list[Any]) -> tuple[list[str], list[str]]:
    """The names of wrappers that change observations, and of those that change actions."""
    seen = [type(each).__name__ for each in chain[:-1] if type(each).__name__ not in _KNOWN]
    acted: list[str] = []
    if not chain:
        return seen, acted
    gymnasium: Any = need("gymnasium", extra="sb3")
    for wrapper in _first(chain):
        name = type(wrapper).__name__
        if isinstance(wrapper, gymnasium.ActionWrapper):
            acted.append(name)
        elif _observes(wrapper):
            seen.append(name)
    return seen, acted


def statistics_inside(chain: list[Any], where: str) -> Inside | None:
    """Those of Gymnasium's NormalizeObservation in the environments; None where there are none."""
    if not chain:
        return None
    envs = getattr(chain[-1], "envs", None)
    if envs is None:
        if _elsewhere(chain[-1]):
            raise UsageError(f"its environments normalise ({NORMALIZE}) in processes of their own",
                             where=where, hint=_HINT)  # fmt: skip
        return None
    found = [each for env in envs for each in single(env) if type(each).__name__ == NORMALIZE]
    if not found:
        return None
    outer = [type(each).__name__ for each in chain[:-1]]
    outer = [name for name in outer if name not in _KNOWN or name == "VecFrameStack"]
    for wrapper in single(envs[0]):
        if type(wrapper).__name__ == NORMALIZE:
            break
        if _observes(wrapper):
            outer.append(type(wrapper).__name__)
    if outer:
        raise UsageError(
            f"{NORMALIZE} stands inside of {', '.join(outer)}", where=where, hint=_HINT
        )
    first = found[0]
    mean, var = np.asarray(first.obs_rms.mean), np.asarray(first.obs_rms.var)
    same = all(np.array_equal(mean, each.obs_rms.mean) for each in found)
    if not same or len(found) > len(envs):
        raise UsageError(
            f"its environments hold {len(found)} {NORMALIZE}, each with statistics of its own",
            where=where, hint=_HINT,
        )  # fmt: skip
    formula = EpsInsideRoot(mean=mean, var=var, eps=float(first.epsilon))
    return Inside(formula=formula, space=first.env.observation_space)


def _first(chain: list[Any]) -> Iterator[Any]:
    envs = getattr(chain[-1], "envs", None)
    return single(envs[0]) if envs else iter(())


def _observes(wrapper: Any) -> bool:
    gymnasium: Any = need("gymnasium", extra="sb3")
    if isinstance(wrapper, gymnasium.ObservationWrapper) or type(wrapper).__name__ == NORMALIZE:
        return True
    return bool(wrapper.observation_space != wrapper.env.observation_space)


def _elsewhere(venv: Any) -> bool:
    wrappers: Any = need("gymnasium.wrappers", extra="sb3")
    try:
        return any(venv.env_is_wrapped(wrappers.NormalizeObservation))
    except Exception:  # a vectorised environment of somebody's own
        return False
