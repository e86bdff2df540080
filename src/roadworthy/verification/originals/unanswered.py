"""Corners on which the original itself has no answer: there is nothing to compare with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from roadworthy.spec.corners import corners
from roadworthy.spec.port import BATCH, Array, Memory, Port
from roadworthy.spec.run import Key, Steppable, Values, remembered, results
from roadworthy.spec.samples import draw_ordinary
from roadworthy.spec.sampling import NO_NUMBER, RAISES, Sampling
from roadworthy.spec.signature import Signature

if TYPE_CHECKING:
    from roadworthy.verification.originals.original import Original


def without_unanswered(original: Original, signature: Signature, sampling: Sampling) -> Sampling:
    """The sampling without the corners on which the original raises or gives NaN or infinity."""
    left_out = {}
    for port in signature.inputs:
        found = _unanswered(original, signature, port, sampling)
        if found:
            left_out[port.name] = found
    return replace(sampling, left_out=left_out)


def _unanswered(
    original: Original, signature: Signature, port: Port, sampling: Sampling
) -> dict[str, str]:
    dims = dict.fromkeys(signature.symbols, 4)
    axis = port.batch_axis or 0
    sizes = port.sizes(dims | {BATCH: 1})
    tried = corners(port, (*sizes[:axis], *sizes[axis + 1 :]), sampling.thresholds)
    if not tried or not sizes:
        return {}
    rows = original.rows or len(tried)
    rng = np.random.default_rng(0)
    drawn = draw_ordinary(signature, rng, steps=1, rows=rows, sampling=sampling)
    ordinary = {name: array[0] for name, array in drawn.items()}
    found: dict[str, str] = {}
    with original.open(signature, rows=rows) as live:
        usual = _answer(live, ordinary)
        if usual is None:
            return {}
        # Where ordinary rows have no number either, it is how the policy speaks: -inf for a
        # forbidden choice.
        judged = _NumbersSeen(
            signature, {name for name, array in usual.items() if _is_number(array)}
        )
        if original.rows is None:
            values = np.stack(list(tried.values()), axis=axis)
            answer = _answer(live, ordinary | {port.name: values})
            if answer is not None:
                numbers = judged.rows(answer, rows)
                return {
                    name: NO_NUMBER for name, fine in zip(tried, numbers, strict=True) if not fine
                }
        for name, row in tried.items():
            values = np.stack([row] * rows, axis=axis)
            answer = _answer(live, ordinary | {port.name: values})
            if answer is None:
                found[name] = RAISES
            elif not judged.rows(answer, rows).all():
                found[name] = NO_NUMBER
    return found


def _answer(live: Steppable, inputs: Mapping[str, Array]) -> Values | None:
    """Outputs and memory after one step from the beginning; None where the original raises."""
    live.reset()
    try:
        outputs = live.step(inputs)
    except Exception:  # whatever the user's module raises
        return None
    return results(outputs, live.memory)


class _NumbersSeen:
    """Tells which rows of an answer are numbers, in the values that usually are."""

    def __init__(self, signature: Signature, usual: set[Key]) -> None:
        ports: dict[Key, Port | Memory] = {each.name: each for each in signature.outputs}
        ports |= {remembered(each.name): each for each in signature.memory}
        self._axes = {
            name: each.shape.index(BATCH) if BATCH in each.shape else None
            for name, each in ports.items()
            if name in usual
        }

    def rows(self, answer: Values, rows: int) -> Array:
        fine = np.ones(rows, dtype=bool)
        for name, axis in self._axes.items():
            finite = np.isfinite(answer[name])
            if axis is None or finite.shape[axis] != rows:
                fine &= finite.all()
            else:
                fine &= np.moveaxis(finite, axis, 0).reshape(rows, -1).all(axis=1)
        return fine


def _is_number(array: Array) -> bool:
    return bool(np.isfinite(array).all())
