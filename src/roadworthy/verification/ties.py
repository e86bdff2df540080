"""Ties: steps at which another action is as right as the original's, because the logits are equal.

Rounding decides between equal logits, so an artifact may choose the other one. Such steps are
counted and shown; any other difference of a discrete action is a failure.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from roadworthy.spec.port import Array
from roadworthy.spec.signature import Action, Signature
from roadworthy.verification.compare import Tolerance


class Played(Protocol):
    """The steps of a play, as they were recorded."""

    inputs: list[dict[str, Array]]
    begins: list[Array]

    def stacked(self, name: str) -> dict[str, Array]: ...


def tied_steps(subject: Any, signature: Signature, play: Played, margin: float | None) -> Array:
    """(steps, rows): where the follower chose another action that is within the margin."""
    expected = play.stacked("outputs")[signature.action_output]
    got = play.stacked("followed")[signature.action_output]
    nothing = np.zeros(expected.shape[:2], dtype=bool)
    undecided = subject.before_choice() if hasattr(subject, "before_choice") else None
    if signature.action is None or undecided is None or np.array_equal(expected, got):
        return nothing
    logits = _logits(undecided, signature, play)
    allowed = _allowed(logits, margin)
    choices = zip(_split(logits, signature.action), _columns(expected), _columns(got), strict=True)
    tied = ~nothing
    for part, one, other in choices:
        gap = np.abs(_at(part, one) - _at(part, other))
        tied &= (one == other) | (gap <= allowed)
    differs = (expected != got).reshape(*nothing.shape, -1).any(axis=-1)
    result: Array = tied & differs
    return result


def _logits(undecided: Any, signature: Signature, play: Played) -> Array:
    """The logits of every step, from the module stepped again over the recorded inputs."""
    found = []
    with undecided.original(signature, rows=len(play.begins[0])) as live:
        for inputs, begins in zip(play.inputs, play.begins, strict=True):
            if begins.any():
                live.reset(begins)
            found.append(next(iter(live.step(inputs).values())))
    return np.stack(found)


def _allowed(logits: Array, margin: float | None) -> Array:
    if margin is not None:
        return np.full(logits.shape[:2], margin)
    tolerance = Tolerance.of(logits.dtype)
    finite = np.where(np.isfinite(logits), np.abs(logits), 0.0)
    return np.asarray(tolerance.atol + tolerance.rtol * finite.max(axis=-1))


def _split(logits: Array, action: Action) -> list[Array]:
    if action.kind == "discrete":
        return [logits]
    return np.split(logits, np.cumsum(action.sizes)[:-1], axis=-1)


def _columns(actions: Array) -> list[Array]:
    return [actions] if actions.ndim == 2 else list(np.moveaxis(actions, -1, 0))


def _at(logits: Array, choice: Array) -> Array:
    return np.take_along_axis(logits, choice[..., None].astype(np.int64), axis=-1)[..., 0]
