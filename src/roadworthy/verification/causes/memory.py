"""Hypotheses about what is remembered: fed back, reset, started, laid out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from roadworthy.errors import Finding
from roadworthy.spec.port import Array
from roadworthy.spec.run import Run, follow
from roadworthy.spec.tolerance import INITIAL, REARRANGED
from roadworthy.verification.causes.evidence import Evidence, Hypothesis, cause
from roadworthy.verification.comparison import Comparison


def not_fed_back(evidence: Evidence) -> Iterator[Finding]:
    always = np.ones_like(evidence.theirs.resets)
    clock = evidence.bundle.signature.clock
    if (
        evidence.original
        and not clock
        and evidence.original_gives(evidence.theirs.inputs, resets=always)
    ):
        names = ", ".join(repr(each.name) for each in evidence.bundle.signature.memory)
        yield cause(
            "the artifact forgets: it gives what the original gives when its memory is reset at "
            "every step",
            where=names or "memory",
            hint="declare the state in the export, memory={…}, and return its next value from "
            "forward",
        )


def not_reset(evidence: Evidence) -> Iterator[Finding]:
    once = np.zeros_like(evidence.theirs.resets)
    once[0] = True
    if evidence.original and evidence.original_gives(evidence.theirs.inputs, resets=once):
        yield cause(
            "the artifact is not reset: it gives what the original gives when an episode goes on",
            where="reset",
            hint="declare all state as memory={…} in the export, so that reset() reaches it",
        )


def starts_elsewhere(evidence: Evidence) -> Iterator[Finding]:
    if evidence.original is None:
        return
    policy = evidence.new()
    with evidence.open_original(evidence.rows) as live:
        try:
            start = live.memory
        except AttributeError:  # a module that makes its state at the first call has none yet
            return
    for memory in policy.signature.memory:
        own, other = start.get(memory.name), memory.fresh(evidence.rows)
        if own is not None and own.shape == other.shape and not INITIAL.close(other, own):
            yield cause(
                f"an episode starts at {_some(own)} in the original and at {_some(other)} in the "
                "artifact",
                where=f"memory {memory.name}",
                hint=f"export with that initial value: {_declared(evidence, memory.name, own)}",
            )


def _declared(evidence: Evidence, port: str, own: Array) -> str:
    """How the start of a memory is said: of an argument, or of an attribute."""
    recipe = evidence.bundle.manifest["recipe"]
    name = next(
        (n for n in recipe.get("memory", {}) if port in (n, f"{n}.{port[len(n) + 1 :]}")), port
    )
    path = recipe.get("attributes", {}).get(name)
    one = f"{own.ravel()[0]:.6g}" if own.size and (own == own.ravel()[0]).all() else ""
    if path is not None:
        return f"memory={{{name!r}: rw.Attribute({path!r}, initial={one or 'tensor'})}}"
    shape = tuple(own.shape)
    return f"memory={{{name!r}: {f'torch.full({shape}, {one})' if one else 'tensor'}}}"


def _some(values: Array) -> str:
    flat = values.ravel()
    listed = ", ".join(f"{value:.4g}" for value in flat[:4])
    return f"[{listed}{', …' if flat.size > 4 else ''}]"


def laid_out_otherwise(evidence: Evidence) -> Iterator[Finding]:
    """What is remembered is right, but turned round or with its axes exchanged."""
    for name, own in evidence.theirs.next_memory.items():
        other = evidence.ours.next_memory.get(name)
        if other is None or own.shape != other.shape or REARRANGED.close(other, own):
            continue
        for axis in range(1, own.ndim):
            if own.shape[axis] > 1 and REARRANGED.close(np.flip(other, axis), own):
                yield cause(
                    f"axis {axis - 1} of the memory is reversed: the newest comes first "
                    "where the original has the oldest",
                    where=f"memory {name}",
                    hint="add new values at the same end as the original",
                )
        for axes in list(itertools.permutations(range(1, own.ndim)))[1:]:
            turned = other.transpose(0, *axes).reshape(own.shape)
            if REARRANGED.close(turned, own):
                yield cause(
                    f"the axes of the memory are swapped: {axes}",
                    where=f"memory {name}",
                    hint="keep the layout of the original, such as (layers, batch, features)",
                )


def right_with_one_row(evidence: Evidence) -> Iterator[Finding]:
    if evidence.original is None or evidence.rows == 1 or evidence.bundle.signature.fixed_rows:
        return
    if _one_row_agrees(evidence):
        yield cause(
            "the artifact is right with one row and wrong with several: rows are mixed up",
            where="batch",
            hint="look for a reshape or a memory layout that swaps layers and rows, "
            "or for a batch of 1 that is fixed in the code",
        )


def _one_row_agrees(evidence: Evidence) -> bool:
    signature = evidence.bundle.signature
    comparison = Comparison()
    inputs = {
        port.name: np.take(evidence.theirs.inputs[port.name], [0], axis=1 + (port.batch_axis or 0))
        for port in signature.inputs
    }
    script = Run(inputs=inputs, resets=evidence.theirs.resets[:, :1])
    policy = evidence.new()
    with evidence.open_original(1) as live:
        both = zip(follow(live, script), follow(policy, script), strict=True)
        for step, (expected, got) in enumerate(both):
            comparison.add(step, expected, got)
    return comparison.passed


def drifts(evidence: Evidence) -> Iterator[Finding]:
    """The last resort: what is known is only when it begins."""
    starts = evidence.theirs.resets.all(axis=1)
    if not evidence.bundle.signature.memory or not evidence.differing:
        return
    wrong = Comparison()
    for step in np.flatnonzero(starts):
        now = int(step)
        wrong.add(
            now,
            {port: values[now] for port, values in evidence.expected.items()},
            {port: values[now] for port, values in evidence.got.items()},
        )
    if wrong.passed and wrong.steps:
        first = _first_memory(evidence)
        yield cause(
            "the first step of every episode is right and later ones are not: the memory is "
            f"wrong{first}",
            where="memory",
            hint="look at how the next memory is computed and returned: states swapped, or "
            "updated twice",
        )


def _first_memory(evidence: Evidence) -> str:
    for name, own in evidence.theirs.next_memory.items():
        other = evidence.ours.next_memory.get(name)
        if other is not None and own.shape == other.shape and not REARRANGED.close(other, own):
            return f", first in {name!r}"
    return ""


HYPOTHESES: tuple[Hypothesis, ...] = (
    not_fed_back, not_reset, starts_elsewhere, laid_out_otherwise, right_with_one_row,
)  # fmt: skip
LAST_RESORTS: tuple[Hypothesis, ...] = (drifts,)
