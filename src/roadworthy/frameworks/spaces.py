"""Observation and action spaces: as plain data, what they say about ports, and Gymnasium's own.

The plain data has the attributes of Gymnasium's spaces (`low`, `n`, `nvec`, `spaces`, …), so that
what reads the one reads the other; Gymnasium itself is imported only to make spaces.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from roadworthy.errors import UsageError, need
from roadworthy.frameworks.files.pickles import Record
from roadworthy.runtime.gym.frame_skip import frame_skip_of
from roadworthy.spec.port import About, Array
from roadworthy.spec.signature import Action

OBS = "obs"
ACTION = "action"


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """Numbers between limits; `low` and `high` have the shape of one observation."""

    low: Array
    high: Array
    dtype: str = "float32"

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.low.shape)

    @property
    def is_image(self) -> bool:
        """Whether Stable-Baselines3 takes it for an image: uint8, three axes, from 0 to 255."""
        return (
            self.dtype == "uint8"
            and len(self.shape) == 3
            and bool((self.low == 0).all() and (self.high == 255).all())
        )

    def __str__(self) -> str:
        low, high = self.low.min(initial=math.inf), self.high.max(initial=-math.inf)
        return f"Box {self.shape} {self.dtype} in [{low:g}, {high:g}]"


@dataclass(frozen=True, slots=True)
class Discrete:
    """One of `n` choices; the first is called `start`."""

    n: int
    start: int = 0
    shape: tuple[int, ...] = ()
    dtype: str = "int64"

    def __str__(self) -> str:
        return f"Discrete {self.n}" + (f" from {self.start}" if self.start else "")


@dataclass(frozen=True, slots=True)
class MultiDiscrete:
    """One of several choices in each element."""

    nvec: tuple[int, ...]
    dtype: str = "int64"

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.nvec),)

    def __str__(self) -> str:
        return f"MultiDiscrete {self.nvec}"


@dataclass(frozen=True, slots=True)
class MultiBinary:
    """Yes or no in each element."""

    shape: tuple[int, ...]
    dtype: str = "int8"

    @property
    def n(self) -> int:
        return math.prod(self.shape)

    def __str__(self) -> str:
        return f"MultiBinary {self.shape}"


@dataclass(frozen=True, slots=True, eq=False)
class Dict:
    """Several spaces, by name."""

    spaces: Mapping[str, Box | Discrete | MultiDiscrete | MultiBinary]

    def __str__(self) -> str:
        return "Dict: " + "; ".join(f"{name} {each}" for name, each in self.spaces.items())


Leaf = Box | Discrete | MultiDiscrete | MultiBinary
Space = Leaf | Dict


@dataclass(frozen=True, slots=True, eq=False)
class Environment:
    """The spaces of an environment, what the user called it, and the frames of one action."""

    name: str
    observation: Space
    action: Space
    frame_skip: int | None = None


def environment(env: object) -> Environment:
    """The spaces of a Gymnasium id, a function that makes an environment, or an environment."""
    made: Any = env
    if isinstance(env, str):
        gymnasium: Any = need("gymnasium", extra="gym")
        try:
            made = gymnasium.make(env)
        except gymnasium.error.Error as error:
            raise UsageError(
                f"Gymnasium cannot make {env!r}: {str(error).splitlines()[0]}",
                where="env",
                hint="check the id, and whether the package that registers it is installed",
            ) from error
    elif callable(env) and not hasattr(env, "observation_space"):
        made = env()
    name = env if isinstance(env, str) else type(made).__name__
    try:
        # One row of a vectorised environment.
        observation = getattr(made, "single_observation_space", made.observation_space)
        action = getattr(made, "single_action_space", made.action_space)
        spaces = space_from(observation), space_from(action)
        return Environment(str(name), *spaces, frame_skip=frame_skip_of(made))
    except ValueError as error:
        raise UsageError(f"expected {error}", where=f"env {name}") from error
    finally:
        if made is not env:
            made.close()


def differs(trained: Space, given: Space) -> bool:
    """Whether two spaces are apart; of observations and actions with limits, these count too."""
    if type(trained) is not type(given):
        return True
    if isinstance(trained, Box) and isinstance(given, Box):
        if trained.shape != given.shape:
            return True
        return not (np.allclose(trained.low, given.low) and np.allclose(trained.high, given.high))
    if isinstance(trained, Dict) and isinstance(given, Dict):
        return set(trained.spaces) != set(given.spaces)
    return trained != given


def space_from(found: object) -> Space:
    """The space that a record of a pickle, or a live Gymnasium space, describes.

    Raises ValueError for a kind of space that no policy here takes.
    """
    kind = found.kind.rpartition(".")[2] if isinstance(found, Record) else type(found).__name__
    get = _getter(found)
    match kind:
        case "Box":
            low, high = np.asarray(get("low")), np.asarray(get("high"))
            shape = tuple(get("_shape") or get("shape") or low.shape)
            dtype = _dtype_name(get("dtype"), low)
            return Box(np.broadcast_to(low, shape), np.broadcast_to(high, shape), dtype)
        case "Discrete":
            return Discrete(int(get("n")), int(get("start") or 0))
        case "MultiDiscrete":
            sizes, start = np.asarray(get("nvec")), get("start")
            if sizes.ndim != 1 or (start is not None and np.any(np.asarray(start))):
                raise ValueError("a MultiDiscrete space of one axis that starts at 0")
            return MultiDiscrete(tuple(int(each) for each in sizes))
        case "MultiBinary":
            n = get("n")
            shape = tuple(int(each) for each in np.atleast_1d(np.asarray(n)))
            return MultiBinary(shape)
        case "Dict":
            inner = get("spaces")
            leaves = {str(name): space_from(each) for name, each in dict(inner).items()}
            if any(isinstance(each, Dict) for each in leaves.values()):
                raise ValueError("a Dict space without another inside")
            return Dict(leaves)  # type: ignore[arg-type]
    raise ValueError(f"Box, Discrete, MultiDiscrete, MultiBinary or Dict, not {kind}")


def _getter(found: object) -> Any:
    if isinstance(found, Record):
        return found.get
    return lambda name: getattr(found, name, None)


def _dtype_name(told: object, low: Array) -> str:
    text = str(told).rpartition(".")[2].strip("<>'") if told is not None else ""
    try:
        return np.dtype(text).name if text else low.dtype.name
    except TypeError:
        return low.dtype.name


def ports_of(space: Any) -> dict[str, Any]:
    """Port name → space: the entries of a dictionary, or `obs` alone."""
    named = getattr(space, "spaces", None)
    return dict(named) if isinstance(named, Mapping) else {OBS: space}


def example_of(space: Any) -> Tensor:
    """One row of zeros in the form in which observations of the space come."""
    return torch.from_numpy(np.zeros((1, *(space.shape or ())), dtype=space.dtype))


def about_of(space: Any) -> About:
    """The finite limits of the space."""
    count, counts = getattr(space, "n", None), getattr(space, "nvec", None)
    if counts is not None:
        return About(low=0, high=np.asarray(counts) - 1)
    if count is not None:
        binary = bool(space.shape)
        return About(low=0, high=1 if binary else int(count) - 1)
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if low is None or high is None or not (np.isfinite(low).all() and np.isfinite(high).all()):
        return About()
    return About(low=_alike(low), high=_alike(high))


def action_of(space: Any, output: str = ACTION) -> Action | None:
    """What actions of the space mean; None for a space that has no such meaning."""
    counts = getattr(space, "nvec", None)
    if counts is not None:
        return Action(output=output, kind="multi_discrete", sizes=tuple(map(int, counts)))
    count = getattr(space, "n", None)
    if count is not None:
        sizes = (2,) * int(np.prod(space.shape)) if space.shape else (int(count),)
        kind = "multi_discrete" if space.shape else "discrete"
        return Action(output=output, kind=kind, sizes=sizes)  # type: ignore[arg-type]
    if getattr(space, "low", None) is None:
        return None
    low, high = space.low, space.high
    finite = np.isfinite(low).all() and np.isfinite(high).all()
    if not finite:
        return Action(output=output, kind="continuous")
    return Action(output=output, kind="continuous", low=low, high=high)


def _alike(limits: Any) -> Any:
    """One number where all are the same: pictures have thousands."""
    flat = np.asarray(limits).reshape(-1)
    return flat[0].item() if flat.size and (flat == flat[0]).all() else limits


def observation_box(example: Tensor) -> Any:
    """The space of a port: bytes for images, any number for everything else."""
    spaces: Any = need("gymnasium.spaces", extra="gym")
    pixels = example.dtype == torch.uint8
    return spaces.Box(
        0 if pixels else -np.inf, 255 if pixels else np.inf, tuple(example.shape[1:]),
        np.uint8 if pixels else np.float32,
    )  # fmt: skip


def action_box(facts: Mapping[str, str], size: int, *, limit: float) -> Any:
    """The space of continuous actions between the limits that were said; else ±`limit`."""
    spaces: Any = need("gymnasium.spaces", extra="gym")

    def side(name: str, default: float) -> Any:
        said = [float(each) for each in facts.get(name, str(default)).strip("[]() ").split(",")]
        return np.broadcast_to(np.asarray(said, np.float32), (size,)).copy()

    return spaces.Box(side("action_low", -limit), side("action_high", limit))
