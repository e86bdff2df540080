"""Hypotheses about what happens to the inputs: order, layout, scale, being ignored."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from roadworthy.errors import Finding
from roadworthy.spec.port import Array, Port
from roadworthy.spec.run import Arrays
from roadworthy.verification.causes.evidence import Evidence, Hypothesis, cause
from roadworthy.verification.causes.probing import probe

SCALES = (
    (255.0, "not divided by 255"), (1 / 255.0, "divided by 255 once more"),
    (math.pi / 180, "taken as degrees"), (180 / math.pi, "taken as radians"),
    (-1.0, "taken with the other sign"),
)  # fmt: skip


def ports_exchanged(evidence: Evidence) -> Iterator[Finding]:
    ports = evidence.bundle.signature.inputs
    for one, other in itertools.combinations(ports, 2):
        if (one.shape, one.dtype) == (other.shape, other.dtype):
            inputs = dict(evidence.theirs.inputs)
            swapped = inputs | {one.name: inputs[other.name], other.name: inputs[one.name]}
            if _explains(evidence, swapped):
                yield cause(
                    f"the inputs {one.name!r} and {other.name!r} are swapped",
                    where=one.name,
                    hint="name the inputs in the order in which the original takes them",
                )


def scaled(evidence: Evidence) -> Iterator[Finding]:
    for port in _floating(evidence):
        for factor, meaning in SCALES:
            if evidence.original_gives(_with(evidence, port, factor)):
                yield cause(
                    f"the artifact reads {port.name!r} {meaning}: it gives what the original "
                    f"gives for {factor:.4g} times the value",
                    where=port.name,
                    hint="scale the input in one place only: in the policy, or before it",
                )


def _with(evidence: Evidence, port: Port, factor: float) -> Arrays:
    values = (evidence.theirs.inputs[port.name] * factor).astype(port.dtype)
    return {**evidence.theirs.inputs, port.name: values}


def turned(evidence: Evidence) -> Iterator[Finding]:
    """An axis reversed (frames, colours), or axes exchanged by a reshape (HWC and CHW)."""
    for port in evidence.bundle.signature.inputs:
        values = evidence.theirs.inputs[port.name]
        for what, hint, changed in _turns(port, values):
            if _explains(evidence, {**evidence.theirs.inputs, port.name: changed}):
                yield cause(what, where=port.name, hint=hint)


def _turns(port: Port, values: Array) -> Iterator[tuple[str, str, Array]]:
    own = [axis for axis, size in enumerate(values.shape) if axis > 1 and size > 1]
    for axis in own:
        yield (
            f"axis {axis - 1} of {port.name!r} is read in the reverse order",
            "oldest first or newest first, RGB or BGR: keep the order of the original",
            np.flip(values, axis).copy(),
        )
    if len(own) > 1:
        for axes in list(itertools.permutations(range(2, values.ndim)))[1:]:
            order = (0, 1, *axes)
            named = ", ".join(str(axis - 1) for axis in axes)
            hint = "HWC or CHW: permute the axes of an image, never reshape them"
            what = f"the axes of {port.name!r} are swapped in the artifact: ({named})"
            yield what, hint, values.transpose(order).reshape(values.shape).copy()
            sizes = [values.shape[axis] for axis in order]
            yield what, hint, values.reshape(sizes).transpose(np.argsort(order)).copy()


def _explains(evidence: Evidence, inputs: Arrays) -> bool:
    if evidence.original is None:
        return evidence.artifact_gives(inputs)
    return evidence.original_gives(inputs)


def ignored(evidence: Evidence) -> Iterator[Finding]:
    """Inputs that move the original and leave the artifact as it is."""
    probed = probe(evidence)
    if probed is None:
        return
    deaf = probed.original.responds & ~probed.artifact.responds
    for port in evidence.bundle.signature.inputs:
        places = [i for i, (name, _) in enumerate(probed.places) if name == port.name]
        silent = [place for place in places if deaf[place]]
        heard = [place for place in places if probed.original.responds[place]]
        if silent and silent == heard and _indifferent(evidence, port, slice(None)):
            yield _ignored(repr(port.name), port.name)
            continue
        for place in silent[:4]:
            if _indifferent(evidence, port, probed.places[place][1]):
                yield _ignored(probed.name(evidence, place), port.name)


def _indifferent(evidence: Evidence, port: Port, index: int | slice) -> bool:
    """Whether the artifact gives the same when these elements take the values of other steps."""
    values = evidence.theirs.inputs[port.name].copy()
    rows = values.reshape(*values.shape[:2], -1)
    rows[..., index] = np.roll(rows[..., index], 5, axis=0)
    again = evidence.artifact({**evidence.theirs.inputs, port.name: values})
    return all(np.array_equal(again[name], got) for name, got in evidence.got.items())


def _ignored(what: str, where: str) -> Finding:
    return cause(
        f"the artifact does not respond to {what}; the original does",
        where=where,
        hint="it became a constant in the export, or is not connected: look for .item(), "
        ".numpy() or "
        "torch.tensor(…) on its way",
    )


def elements_permuted(evidence: Evidence) -> Iterator[Finding]:
    probed = probe(evidence)
    order = None if probed is None else probed.order()
    if probed is None or order is None:
        return
    if not evidence.original_gives(probed.permuted(evidence, order)):
        return
    moved = [place for place, other in enumerate(order) if place != other]
    where = probed.places[moved[0]][0]
    frames = probed.reversed_blocks(order)
    if frames:
        yield cause(
            f"{where!r} is read with its {frames} frames in the reverse order",
            where=where,
            hint="oldest first or newest first: stack the history as the original does",
        )
        return
    listed = [
        f"{probed.name(evidence, place)} is read as {probed.name(evidence, order[place])}"
        for place in moved[:6]
    ]
    rest = f" and {len(moved) - 6} more" if len(moved) > 6 else ""
    yield cause(
        "the elements of the observation are in another order: " + ", ".join(listed) + rest,
        where=where,
        hint="keep the keys and the joints of the observation in the order of the original",
    )


def _floating(evidence: Evidence) -> list[Port]:
    return [port for port in evidence.bundle.signature.inputs if port.dtype.startswith("float")]


HYPOTHESES: tuple[Hypothesis, ...] = (
    ports_exchanged, scaled, turned, elements_permuted, ignored,
)  # fmt: skip
