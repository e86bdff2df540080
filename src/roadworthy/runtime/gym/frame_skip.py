"""For how many frames an environment repeats an action, and whether the policy was made for it.

`ALE/Pong-v5` repeats each action four times, TorchRL's `GymEnv("ALE/Pong-v5")` once, without a
word: shapes and dtypes are the same, and the policy plays another game.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from roadworthy.errors import Finding, UsageError

CODE = "RW345"
# Attributes in which environments keep it: ALE, MuJoCo and AtariPreprocessing.
_OWN = ("_frameskip", "frame_skip")
# What `gym.make` calls it: ALE, MuJoCo.
_KEYWORDS = {"_frameskip": "frameskip", "frame_skip": "frame_skip"}


@dataclass(frozen=True, slots=True)
class _Layer:
    """One environment or wrapper that repeats actions; a pair of numbers is drawn from."""

    name: str
    attribute: str
    frames: int | tuple[int, int]

    def __str__(self) -> str:
        if isinstance(self.frames, tuple):
            return f"{self.name} draws {self.frames[0]} to {self.frames[1] - 1} frames"
        return f"{self.name} {self.frames}"


def frame_skip_of(env: Any) -> int | None:
    """The frames that one action lasts in `env`; None where nothing says it, or it is drawn."""
    layers = list(_layers(env))
    if not layers or any(isinstance(layer.frames, tuple) for layer in layers):
        return None
    return _product(layers)


def refuse_other_frame_skip(expected: int | None, env: Any) -> None:
    """An error if the environment repeats actions for other than the `expected` frames."""
    layers = list(_layers(env))
    drawn = any(isinstance(layer.frames, tuple) for layer in layers)
    if expected is None or not layers or (not drawn and _product(layers) == expected):
        return
    said = " × ".join(map(str, layers))
    raise UsageError(
        findings=[
            Finding(
                code=CODE,
                where="env",
                what=f"one action of the policy lasts {expected} frames, one step of the "
                f"environment {'a random number' if drawn else _product(layers)} ({said})",
                hint=_line(env, layers, expected),
            )
        ]
    )


def _product(layers: list[_Layer]) -> int:
    return prod(layer.frames for layer in layers if isinstance(layer.frames, int))


def _layers(env: Any) -> Iterator[_Layer]:
    """Every part of an environment that repeats actions, from the outside to the inside."""
    # A vectorised environment of plain ones is as its first.
    env = next(iter(getattr(env, "envs", None) or ()), env)
    while env is not None:
        # Old wrappers hand every attribute of what is inside to the outside: its own ones only.
        own = getattr(env, "__dict__", {})
        names = (*_OWN, "_skip") if "Skip" in type(env).__name__ else _OWN
        found = [(name, _frames(own[name])) for name in names if name in own]
        yield from (
            _Layer(type(env).__name__, name, frames) for name, frames in found[:1] if frames
        )
        env = own.get("env")


def _frames(value: Any) -> int | tuple[int, int] | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    pair = isinstance(value, (tuple, list)) and len(value) == 2
    return (int(value[0]), int(value[1])) if pair else None


def _line(env: Any, layers: list[_Layer], expected: int) -> str:
    """The line that makes an environment with the expected number of frames."""
    base, around = layers[-1], _product(layers[:-1])
    made = getattr(getattr(env, "spec", None), "id", "…")
    if base.attribute in _KEYWORDS and expected % around == 0:
        keyword = f"{_KEYWORDS[base.attribute]}={expected // around}"
        inside = f"gymnasium.make({made!r}, {keyword})"
        kept = "" if len(layers) == 1 else ", with the same wrappers"
        trained = f"or export again with frame_skip={_product(layers)}, if training had that"
        return f"env=lambda: {inside}{kept}; {trained}"
    return f"let one step last {expected} frames, or export again with the frame_skip of training"
