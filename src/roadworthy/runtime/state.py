"""What a policy carries from one step to the next, as a value that can be kept and put back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from roadworthy.errors import Finding, PortMismatch, did_you_mean
from roadworthy.runtime.noise import NoiseState
from roadworthy.spec.port import BATCH, Array, Memory, shape_text
from roadworthy.spec.signature import Signature


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PolicyState:
    """All that a policy carries from one step to the next; `Policy.restore` goes on from there.

    rows    how many rows are remembered
    memory  by name, as `Policy.memory` shows it
    tick    ticks since the last decision, where a policy has two rates
    noise   where the draws of each row stand; None where nothing is drawn
    fresh   whether no step was taken since the reset, so that the number of rows may change
    extra   what wrappers around the policy carry besides, by names of their own
    """

    rows: int
    memory: Mapping[str, Array] = field(repr=False)
    tick: int
    noise: NoiseState | None = field(repr=False)
    fresh: bool
    extra: Mapping[str, Array] = field(default_factory=dict)


def refuse_foreign(state: PolicyState, signature: Signature, *, draws: bool) -> None:
    """An error, with everything that is wrong, if the state is not one of this policy."""
    findings = memory_findings(signature.memory, state.memory, state.rows)
    findings += [
        Finding(code="RW011", where=memory.name, what=f"missing memory, expected {_type(memory)}")
        for memory in signature.memory
        if memory.name not in state.memory
    ]
    ticks = signature.decimation if signature.clock else 1
    if not 0 <= state.tick < ticks:
        what = f"expected a tick below {ticks}, got {state.tick}"
        findings.append(Finding(code="RW010", where="tick", what=what))
    if (state.noise is not None) != draws:
        expected, got = ("with", "without") if draws else ("without", "with")
        what = f"expected a state {expected} noise, got one {got}"
        findings.append(Finding(code="RW010", where="noise", what=what))
    findings += [
        Finding(
            code="RW011",
            where=name,
            what="the state is that of a wrapper, and this is the policy inside",
            hint="restore it through the wrapper that made it",
        )
        for name in state.extra
    ]
    if findings:
        raise PortMismatch(findings=findings)


def memory_findings(
    memories: Iterable[Memory], values: Mapping[str, Any], rows: int
) -> list[Finding]:
    """What is wrong with the values for some memories, in that number of rows."""
    known = {memory.name: memory for memory in memories}
    findings = []
    for name, value in values.items():
        if name not in known:
            hint = did_you_mean(str(name), known)
            findings.append(
                Finding(code="RW011", where=str(name), what="no such memory", hint=hint)
            )
            continue
        memory = known[name]
        sizes = tuple(rows if dim == BATCH else dim for dim in memory.shape)
        array = _array(value)
        if array is None or array.dtype != memory.dtype or array.shape != sizes:
            other_type = array is None or array.dtype != memory.dtype
            got = type(value).__name__ if array is None else f"{array.dtype} {array.shape}"
            at = f" with batch = {rows}" if BATCH in memory.shape else ""
            findings.append(
                Finding(
                    code="RW010" if other_type else "RW012",
                    where=name,
                    what=f"expected {_type(memory)}{at}, got {got}",
                    hint="pass what Policy.memory gave, or an array of that type and shape",
                )
            )
    return findings


def rows_in(memories: Iterable[Memory], values: Mapping[str, Any]) -> int | None:
    """The number of rows that the first value with a batch axis has; None where none has one."""
    for memory in memories:
        array = _array(values[memory.name]) if BATCH in memory.shape else None
        if array is not None and array.ndim == len(memory.shape):
            return array.shape[memory.shape.index(BATCH)] or None
    return None


def _array(value: Any) -> Array | None:
    """The value as an array; None where it is none."""
    try:
        array: Array = np.asarray(value)
    except Exception:  # whatever an object's __array__ raises
        return None
    return None if array.dtype == object else array


def _type(memory: Memory) -> str:
    return f"{memory.dtype} {shape_text(memory.shape)}"
