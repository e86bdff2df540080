"""Hypotheses about what happens to the outputs: order, scale, squash, limits, delay."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from roadworthy.errors import Finding
from roadworthy.spec.bundle import POLICY
from roadworthy.spec.port import Array
from roadworthy.spec.tolerance import MOVES, SCALES, SHIFTED, SHOWS
from roadworthy.verification.causes.evidence import Evidence, Hypothesis, cause
from roadworthy.verification.causes.naming import element, pairs
from roadworthy.verification.causes.weights import holds_half

# So many values at one limit are a clip; fewer may have come there by chance.
FEWEST_AT_LIMIT = 3
SCALE_HINT = "a scale or offset is missing or applied twice: check action=… and the calling code"


def other_shape(evidence: Evidence) -> Iterator[Finding]:
    for port in evidence.differing:
        own, other = (values[port].shape[1:] for values in (evidence.expected, evidence.got))
        if own != other:
            yield cause(
                f"the original returns shape {own} and the artifact {other}: another network",
                where=port,
                hint="the artifact may be the critic or another head: name the wanted output in "
                "outputs=(…)",
            )


def not_finite(evidence: Evidence) -> Iterator[Finding]:
    for port in evidence.differing:
        own, other = evidence.expected[port], evidence.got[port]
        if own.shape == other.shape and np.isfinite(own).all() and not np.isfinite(other).all():
            step, *place = np.argwhere(~np.isfinite(other))[0]
            half = holds_half(evidence.bundle.files.get(POLICY))
            yield cause(
                f"the artifact gives {other[(step, *place)]} at step {step} where the original "
                f"gives {own[(step, *place)]:.9g}: an overflow"
                f"{' (float16 ends at 65504)' if half else ''} or a division by zero",
                where=port,
                hint="export in float32"
                if half
                else "an operator is computed in another way: "
                "the note on where the difference begins names it",
            )


def ports_exchanged(evidence: Evidence) -> Iterator[Finding]:
    for one, other in itertools.combinations(evidence.differing, 2):
        if evidence.agrees(one, evidence.got[other]) and evidence.agrees(other, evidence.got[one]):
            yield cause(
                f"the outputs {one!r} and {other!r} are swapped",
                where=one,
                hint="name the outputs in the order in which forward returns them: outputs=…",
            )


def elements_permuted(evidence: Evidence) -> Iterator[Finding]:
    for port, own, other in _wrong(evidence):
        if own.ndim < 3 or own.shape[-1] < 2:
            continue
        order = _matching(own, other)
        if order is not None and evidence.agrees(port, other[..., order]):
            yield cause(
                "the elements come in another order: " + pairs(evidence, port, order),
                where=port,
                hint="put the elements in the order of the original",
            )


def _matching(own: Array, other: Array) -> list[int] | None:
    """For each element of the original, the place where the artifact has it."""
    size = own.shape[-1]
    apart = np.abs(own[..., :, None].astype(np.float64) - other[..., None, :])
    distance = apart.reshape(-1, size, size).max(axis=0)
    order = distance.argmin(axis=1).tolist()
    return order if sorted(order) == list(range(size)) and order != sorted(order) else None


def affine(evidence: Evidence) -> Iterator[Finding]:
    """`artifact = scale · original + offset`, element by element."""
    for port, own, other in _wrong(evidence):
        if own.dtype.kind != "f" or own.ndim < 3:
            continue
        x = own.reshape(-1, own.shape[-1]).astype(np.float64)
        y = other.reshape(x.shape).astype(np.float64)
        if not (np.isfinite(x).all() and np.isfinite(y).all()) or (x.std(axis=0) < MOVES).any():
            continue
        middle = x - x.mean(axis=0)
        scale = (middle * y).sum(axis=0) / (middle**2).sum(axis=0)
        offset = y.mean(axis=0) - scale * x.mean(axis=0)
        if (np.abs(scale) < SCALES).any():
            continue
        if evidence.agrees(port, ((other - offset) / scale).astype(own.dtype)):
            yield cause(f"artifact = {_formula(scale, offset)}", where=port, hint=SCALE_HINT)


def _formula(scale: Array, offset: Array) -> str:
    shifted = np.abs(offset).max() > SHOWS
    factor = _number(scale) if np.abs(scale - 1).max() > SHOWS else ""
    text = f"{factor} · original" if factor else "original"
    return f"{text} + {_number(offset)}" if shifted else text


def _number(values: Array) -> str:
    if np.ptp(values) <= SHOWS * max(1.0, float(np.abs(values).max())):
        return f"{values.mean():.4g}"
    listed = ", ".join(f"{value:.4g}" for value in values[:8])
    return f"[{listed}{', …' if len(values) > 8 else ''}]"


def squashed(evidence: Evidence) -> Iterator[Finding]:
    functions: tuple[tuple[str, Callable[[Array], Array]], ...] = (
        ("tanh", np.tanh), ("sigmoid", lambda x: 1 / (1 + np.exp(-x))), ("exp", np.exp),
    )  # fmt: skip
    for port, own, other in _wrong(evidence):
        if own.dtype.kind != "f":
            continue
        for name, function in functions:
            with np.errstate(over="ignore"):
                missing, twice = function(other), function(own)
            if evidence.agrees(port, missing):
                yield cause(
                    f"the {name} is missing: {name}(artifact) is what the original gives",
                    where=port,
                    hint="add action=rw.Tanh() to the export"
                    if name == "tanh"
                    else f"export a module whose forward applies the {name}",
                )
            elif evidence.explained(port, other, twice):
                yield cause(
                    f"one {name} too many: the artifact gives {name}(original)",
                    where=port,
                    hint="squash once, in the module or in action=…",
                )


def clipped(evidence: Evidence) -> Iterator[Finding]:
    for port, own, other in _wrong(evidence):
        if own.dtype.kind != "f" or own.ndim < 3:
            continue
        if _saturates(own) and evidence.agrees(port, _limited(other, own)):
            yield cause(
                "the clip is missing: inside "
                f"[{own.min():.4g}, {own.max():.4g}] both agree, outside it only the original "
                "clips",
                where=port,
                hint="add it to the export: action=rw.Clip(low=…, high=…)",
            )
        elif _saturates(other) and evidence.explained(port, other, _limited(own, other)):
            yield cause(
                f"the artifact clips to [{other.min():.4g}, {other.max():.4g}], "
                "and the original does not",
                where=port,
                hint="export without rw.Clip, or with the limits of the original",
            )


def _saturates(values: Array) -> bool:
    """Whether several values stand at the same limit: a single largest one is no clip."""
    flat = values.reshape(-1, values.shape[-1])
    at_limit = (flat == flat.max(axis=0)).sum(axis=0), (flat == flat.min(axis=0)).sum(axis=0)
    moves = np.ptp(flat, axis=0) > 0
    return bool(((np.maximum(*at_limit) >= FEWEST_AT_LIMIT) & moves).any())


def _limited(values: Array, like: Array) -> Array:
    axes = tuple(range(like.ndim - 1))
    return np.clip(values, like.min(axis=axes), like.max(axis=axes))


def delayed(evidence: Evidence) -> Iterator[Finding]:
    inside = np.flatnonzero(~evidence.theirs.resets[1:].any(axis=1))
    for port, own, other in _wrong(evidence):
        for late, earlier, what in (
            (other, own, "one step late: the artifact gives what the original gave before"),
            (own, other, "one step early: the artifact gives what the original gives next"),
        ):
            if np.ptp(own) > 0 and SHIFTED.close(earlier[:-1][inside], late[1:][inside]):
                yield cause(
                    what, where=port, hint="return the action for the observation of this step"
                )


def relabelled(evidence: Evidence) -> Iterator[Finding]:
    """The same choices under other numbers."""
    for port, own, other in _wrong(evidence):
        if own.dtype.kind not in "iu":
            continue
        seen = sorted(set(zip(own.ravel().tolist(), other.ravel().tolist(), strict=True)))
        ours, theirs = ({each[side] for each in seen} for side in (0, 1))
        if len(seen) > 1 and ours == theirs and len(ours) == len(seen):
            listed = ", ".join(f"{a} → {b}" for a, b in seen[:8])
            yield cause(
                f"the actions are numbered differently in the artifact: {listed}",
                where=port,
                hint="put the logits in the order of the original's actions",
            )


def constant(evidence: Evidence) -> Iterator[Finding]:
    for port, own, other in _wrong(evidence):
        if own.ndim < 3:
            continue
        still = np.ptp(other.reshape(-1, other.shape[-1]), axis=0) == 0
        moves = np.ptp(own.reshape(-1, own.shape[-1]), axis=0) > 0
        for index in np.flatnonzero(still & moves)[:4]:
            yield cause(
                f"{element(evidence, port, int(index))} never changes in the artifact: "
                f"it is always {other.reshape(-1, other.shape[-1])[0, index]:.6g}",
                where=port,
                hint="it became a constant in the export: look for .item(), .numpy() or "
                "torch.tensor(…)",
            )


def rows_permuted(evidence: Evidence) -> Iterator[Finding]:
    for port, own, other in _wrong(evidence):
        for order in list(itertools.permutations(range(min(own.shape[1], 4))))[1:]:
            if len(order) == own.shape[1] and evidence.agrees(port, other[:, list(order)]):
                yield cause(
                    f"the rows of the batch come out in another order: {order}",
                    where=port,
                    hint="keep the batch on the first axis: a reshape may have moved it",
                )


def half_rounding(evidence: Evidence) -> Iterator[Finding]:
    for port, own, other in _wrong(evidence):
        if own.dtype.kind == "f" and own.dtype.itemsize > 2:
            with np.errstate(over="ignore"):
                if evidence.explained(port, other, own.astype(np.float16).astype(own.dtype)):
                    yield cause(
                        "the values are those of the original, rounded to float16",
                        where=port,
                        hint="keep the output in the dtype of the original",
                    )


def _wrong(evidence: Evidence) -> Iterator[tuple[str, Array, Array]]:
    """The differing ports whose two sides can be compared element by element."""
    for port in evidence.differing:
        own, other = evidence.expected[port], evidence.got[port]
        if own.shape == other.shape and np.isfinite(other).all():
            yield port, own, other


HYPOTHESES: tuple[Hypothesis, ...] = (
    other_shape, not_finite, ports_exchanged, elements_permuted, affine, squashed, clipped,
    delayed, relabelled, rows_permuted, half_rounding, constant,
)  # fmt: skip
