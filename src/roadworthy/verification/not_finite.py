"""What both sides do with an observation that is no number: told, never a failure.

A sensor that fails sends NaN. An original that answers with NaN stops the robot; an artifact that
answers with a number moves it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from roadworthy.errors import Finding
from roadworthy.runtime.policy import Policy
from roadworthy.spec.corners import corners
from roadworthy.spec.port import BATCH, Array, Port
from roadworthy.spec.run import Arrays, Steppable
from roadworthy.spec.samples import draw_ordinary
from roadworthy.spec.sampling import NO_NUMBER, Sampling
from roadworthy.spec.signature import Signature
from roadworthy.verification.originals.original import Original

BROKEN = {"NaN": np.nan, "infinity": np.inf, "-infinity": -np.inf}


def not_finite(policy: Policy, original: Original, sampling: Sampling) -> Iterator[Finding]:
    """A note for each input on which the two sides answer a broken value in another way."""
    signature = policy.signature
    if signature.clock:
        return
    rows = original.rows or signature.fixed_rows or 1
    for port in signature.observed:
        with original.open(signature, rows=rows) as live:
            told = [
                text
                for name, row in _broken(port, signature, sampling).items()
                for text in _answers(policy, live, port, name, row, rows, sampling)
            ]
        if told:
            yield Finding(
                code="RW332",
                where=port.name,
                what="; ".join(told),
                hint="refuse such values before they reach the policy",
                severity="note",
            )


def _broken(port: Port, signature: Signature, sampling: Sampling) -> dict[str, Array]:
    """Rows that are no numbers, and the corners on which the original gives none."""
    sizes = port.sizes(dict.fromkeys(signature.symbols, 4) | {BATCH: 1})
    axis = port.batch_axis or 0
    shape = (*sizes[:axis], *sizes[axis + 1 :])
    found: dict[str, Array] = {}
    if port.dtype.startswith("float"):
        found = {name: np.full(shape, value, dtype=port.dtype) for name, value in BROKEN.items()}
    left_out = sampling.left_out.get(port.name, {})
    for name, row in corners(port, shape, sampling.thresholds).items():
        if left_out.get(name) == NO_NUMBER:
            found[name] = row
    return found


def _answers(
    policy: Policy,
    live: Steppable,
    port: Port,
    name: str,
    row: Array,
    rows: int,
    sampling: Sampling,
) -> Iterator[str]:
    signature = policy.signature
    rng = np.random.default_rng(0)
    drawn = draw_ordinary(signature, rng, steps=1, rows=rows, sampling=sampling)
    inputs = {each: array[0] for each, array in drawn.items()}
    inputs[port.name] = np.stack([row] * rows, axis=port.batch_axis or 0)
    theirs, ours = _answer(live, inputs), _answer(policy, inputs)
    for output in signature.outputs:
        one, other = (_kind(each, output.name) for each in (theirs, ours))
        if one != other:
            yield f"{name} gives {one} in {output.name}, and {other} in the artifact"


def _answer(side: Steppable, inputs: Mapping[str, Array]) -> Arrays | None:
    side.reset()
    try:
        return side.step(inputs)
    except Exception:  # either side may refuse such a value, each in its own way
        return None


def _kind(answer: Arrays | None, output: str) -> str:
    """The kind of an answer in words."""
    if answer is None:
        return "an error"
    values = answer[output]
    if values.dtype.kind != "f":
        return "a choice"
    if np.isfinite(values).all():
        return "numbers"
    if np.isfinite(values).any():
        return "numbers and NaN" if np.isnan(values).any() else "numbers and infinity"
    return "NaN" if np.isnan(values).any() else "infinity"
