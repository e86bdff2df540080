"""The check of the numbers behind a choice, which a comparison of choices cannot see."""

from __future__ import annotations

from typing import Any

import numpy as np

from roadworthy.errors import BundleError
from roadworthy.runtime.engine import OnnxEngine
from roadworthy.runtime.policy import Policy
from roadworthy.spec.bundle import POLICY, Bundle
from roadworthy.spec.port import Array
from roadworthy.verification.certificate import Check
from roadworthy.verification.compare import Comparison

STEPS = 64
ROWS = 2


def choices(bundle: Bundle, subject: Any, seed: int) -> list[Check]:
    """The logits of the artifact beside those of the original; empty where none can be had."""
    find = getattr(subject, "undecided", None)
    found = find(bundle.signature, bundle.files[POLICY]) if find else None
    if found is None:
        return []
    try:
        return [_compared(bundle, subject, found, seed)]
    except BundleError:  # the graph keeps its logits in another type or shape: not readable
        return []


def _compared(bundle: Bundle, subject: Any, found: tuple[Any, Any], seed: int) -> Check:
    behind, original = found
    policy = Policy(behind.signature, OnnxEngine(behind.model))
    rows = subject.rows or bundle.signature.fixed_rows or ROWS
    rng = np.random.default_rng(seed + 31)
    inputs = subject.draw(bundle.signature, rng, steps=STEPS, rows=rows)
    comparison = Comparison()
    name = bundle.signature.action_output
    with original.original(bundle.signature, rows=rows) as live:
        for step in range(STEPS):
            if step % (STEPS // 2) == 0:
                live.reset()
                policy.reset()
            now = {port: array[step] for port, array in inputs.items()}
            got = policy.step(now)
            logits = np.concatenate([got[each] for each in behind.logits], axis=-1)
            comparison.add(
                step, {f"{name} logits": _allowed(live.step(now)[name], logits)},
                {f"{name} logits": _allowed(logits, logits)},
            )  # fmt: skip
    return Check.of("logits", "the numbers behind each choice agree", comparison)


def _allowed(values: Array, masked: Array) -> Array:
    """Zeros for what a mask forbids: there the artifact holds the smallest number of all."""
    return np.where(masked <= np.finfo(masked.dtype).min / 2, 0, values).astype(values.dtype)
