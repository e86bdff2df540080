"""Ties: steps at which another action is as right as the original's, because the logits are equal.

Rounding decides between equal logits, so an artifact may choose the other one. Such steps are
counted and shown; any other difference of a discrete action is a failure.
"""

from __future__ import annotations

import numpy as np

from roadworthy.spec.port import Array
from roadworthy.spec.run import Inner, Key, Run, record_choosing
from roadworthy.spec.signature import Signature
from roadworthy.spec.tolerance import ROUNDINGS, artifact_tolerance
from roadworthy.verification.budget import Budget
from roadworthy.verification.originals.original import Original


def chooses(signature: Signature) -> bool:
    """Whether the action is a choice: whole numbers, which hide what is behind them."""
    port = next(each for each in signature.outputs if each.name == signature.action_output)
    return np.dtype(port.dtype).kind in "iub"


def forbidden(logits: Array) -> Array:
    """Where a mask has put the smallest number of all, so that it is never chosen."""
    return np.asarray(logits <= np.finfo(logits.dtype).min / 2)


def tied_steps(
    original: Original,
    signature: Signature,
    script: Run,
    expected: Array,
    got: Array,
    margin: float | None,
) -> Array:
    """(steps, rows): where the follower chose another action that is within the margin."""
    nothing = np.zeros(expected.shape[:2], dtype=bool)
    if not chooses(signature) or np.array_equal(expected, got):
        return nothing
    parts = _logits(original, signature, script)
    columns = [_columns(values, parts) for values in (expected, got)]
    if not parts or any(len(each) != len(parts) for each in columns):
        return nothing  # the original chooses in a way that cannot be laid beside its actions
    tied = ~nothing
    for part, one, other in zip(parts, *columns, strict=True):
        gap = np.abs(_at(part, one) - _at(part, other))
        tied &= (one == other) | (gap <= _allowed(part, margin))
    differs = (expected != got).reshape(*nothing.shape, -1).any(axis=-1)
    result: Array = tied & differs
    return result


def close_logits(
    signature: Signature, name: Key, budget: Budget, places: Array, own: Array, got: Array
) -> Array:
    """Where the logits of the original's own choice and of another are as close as rounding."""
    nothing = np.zeros(got.shape, dtype=bool)
    if name != signature.action_output or not chooses(signature):
        return nothing
    keys = [key for key in budget.truth if isinstance(key, Inner) and key.kind == "logits"]
    # One more axis in front: steps, of which there is one.
    parts = [budget.truth[key][places][None] for key in keys]
    rounding = [budget.rounding[key][places][None] for key in keys]
    columns = [_columns(values[None], parts) for values in (own, got)]
    if not parts or any(part.ndim != 3 for part in parts):
        return nothing
    if any(len(each) != len(parts) for each in columns):
        return nothing
    if any((each >= part.shape[-1]).any() for each, part in zip(columns[1], parts, strict=True)):
        return nothing  # an index that the original does not know is no tie
    tied = np.ones((1, len(got)), dtype=bool)
    for part, error, one, other in zip(parts, rounding, *columns, strict=True):
        gap = np.abs(_at(part, one) - _at(part, other))
        margin = ROUNDINGS * (_at(error, one) + _at(error, other))
        tied &= (one == other) | (gap <= margin)
    return np.asarray(nothing | tied[0].reshape(-1, *(1,) * (got.ndim - 1)))


def _logits(original: Original, signature: Signature, script: Run) -> list[Array]:
    """The logits of each choice, (steps, rows, options), from the original stepped once more."""
    with original.open_choosing(signature, rows=script.rows) as live:
        logits = record_choosing(live, script).logits
    return [] if any(part.ndim != 3 for part in logits) else list(logits)


def _columns(actions: Array, parts: list[Array]) -> list[Array]:
    """The index that was chosen among each group of options, (steps, rows) each."""
    if actions.ndim == 2:
        return [actions]
    if len(parts) == 1 and actions.shape[-1] == parts[0].shape[-1]:
        return [actions.argmax(axis=-1)]  # one-hot
    return list(np.moveaxis(actions, -1, 0))


def _allowed(logits: Array, margin: float | None) -> Array:
    if margin is not None:
        return np.full(logits.shape[:2], margin)
    tolerance = artifact_tolerance(logits.dtype)
    counted = np.isfinite(logits) & ~forbidden(logits)
    largest = np.where(counted, np.abs(logits), 0.0).max(axis=-1)
    return np.asarray(tolerance.atol + tolerance.rtol * largest)


def _at(logits: Array, choice: Array) -> Array:
    return np.take_along_axis(logits, choice[..., None].astype(np.int64), axis=-1)[..., 0]
