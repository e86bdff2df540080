"""What a person should look at: ports without influence, outputs that never move or never end.

None of this fails a certificate: a policy may be meant that way. Mostly it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from roadworthy.errors import Finding
from roadworthy.runtime.policy import Policy
from roadworthy.spec.port import Array, Port
from roadworthy.spec.run import Run, outputs_of
from roadworthy.spec.samples import draw, draw_ordinary
from roadworthy.spec.sampling import Sampling
from roadworthy.spec.signature import Signature
from roadworthy.spec.tolerance import AT_LIMIT

STEPS = 32
# An output counts as saturated when it is at a limit in nearly every step.
SATURATED = 0.95

Inputs = dict[str, Array]


def sensitivity(new: Callable[[], Policy], seed: int, sampling: Sampling) -> tuple[Finding, ...]:
    """Findings about inputs, memory and outputs of the artifact on values in range."""
    policy = new()
    signature = policy.signature
    steps = STEPS * signature.decimation if signature.clock else max(STEPS, sampling.life)
    rows = signature.fixed_rows or 2
    inputs, others = (
        draw_ordinary(signature, rng, steps=steps, rows=rows, sampling=sampling)
        for rng in (np.random.default_rng(seed), np.random.default_rng(seed + 1))
    )
    wide = draw(signature, np.random.default_rng(seed), steps=steps, rows=rows, sampling=sampling)
    plain = _run(policy, inputs)
    if all(values.dtype.kind != "f" for values in plain.values()):
        # A choice among few actions hides what goes into it; the check of the logits sees it.
        return ()
    return (
        *_idle_inputs(policy, inputs, others, plain),
        # Memory that works after more steps than anyone waits for is not called idle.
        *(() if sampling.beyond_reach else _idle_memory(policy, inputs, plain)),
        *_odd_outputs(signature, plain, lambda: _run(policy, wide)),
    )


class _Forgetting:
    """A policy that loses some of its memories before each step."""

    def __init__(self, policy: Policy, names: tuple[str, ...]) -> None:
        self._policy = policy
        self._names = names

    def reset(self, mask: Array | None = None) -> None:
        self._policy.reset(mask)

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        self._policy.forget(self._names)
        return self._policy.step(inputs)

    @property
    def memory(self) -> dict[str, Array]:
        return self._policy.memory


def _run(policy: Policy, inputs: Inputs, forget: tuple[str, ...] = ()) -> dict[str, Array]:
    steps = len(next(iter(inputs.values())))
    # One episode: all rows begin at the first step, and none later.
    resets = np.zeros((steps, 1), dtype=bool)
    resets[0] = True
    stepped = _Forgetting(policy, forget) if forget else policy
    return outputs_of(stepped, Run(inputs=inputs, resets=resets))


def _idle_inputs(
    policy: Policy, inputs: Inputs, others: Inputs, plain: Inputs
) -> Iterator[Finding]:
    for port in policy.signature.inputs:
        changed = _run(policy, {**inputs, port.name: others[port.name]})
        if _same(plain, changed):
            yield _finding(
                "RW310",
                port.name,
                "the input does not change any output",
                "leave it out of the export, or find where forward drops it",
            )


def _idle_memory(policy: Policy, inputs: Inputs, plain: Inputs) -> Iterator[Finding]:
    names = [memory.name for memory in policy.signature.memory]
    idle = [each for each in names if _same(plain, _run(policy, inputs, forget=(each,)))]
    for name in idle:
        # Of a queue that was declared as one the oldest may be pushed out before it is read.
        stem, _, number = name.rpartition(".")
        parts = {each for each in names if number.isdigit() and each.startswith(f"{stem}.")}
        if parts <= {*idle}:
            yield _finding(
                "RW311",
                name,
                "in all that was tried, forgetting the memory changed no output",
                "if forward should use it, find where it is dropped; it stays in the export, in "
                "case something rare needs it: a NaN, a long standstill",
            )


def _odd_outputs(
    signature: Signature, plain: Inputs, beyond: Callable[[], Inputs]
) -> Iterator[Finding]:
    for port in signature.outputs:
        values = plain[port.name]
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            count = int((~np.isfinite(values)).sum())
            yield _finding(
                "RW314",
                port.name,
                f"{count} of {values.size} values are NaN or infinite, on inputs in range",
                "look for a division by zero, a logarithm, or NaN in the weights",
            )
            continue
        flat = values.reshape(-1, *values.shape[2:])
        yield from _constant(port, flat, beyond)
        yield from _saturated(signature, port, flat)


def _constant(port: Port, flat: Array, beyond: Callable[[], Inputs]) -> Iterator[Finding]:
    """`beyond` are the outputs at corners and at other scales: a step may lie there."""
    still = (flat == flat[:1]).all(axis=0)
    if still.any() and flat.dtype.kind == "f":
        further = beyond()[port.name].reshape(-1, *flat.shape[1:])
        still &= (further == flat[:1]).all(axis=0)
    if still.any() and flat.dtype.kind == "f":
        yield _finding(
            "RW312",
            _elements(port, still),
            f"the output is always {np.unique(flat[0][still]).tolist()[0]!r}, whatever comes in",
            "if the trained policy moves it, something was frozen: rw.verify(folder, "
            "against=module)",
        )


def _saturated(signature: Signature, port: Port, flat: Array) -> Iterator[Finding]:
    low, high = port.about.low, port.about.high
    action = signature.action
    if low is None and action is not None and action.output == port.name:
        low, high = action.low, action.high
    if low is None or high is None or flat.dtype.kind != "f":
        return
    near = AT_LIMIT * np.maximum(1.0, np.abs(np.asarray(high) - np.asarray(low)))
    stuck = (np.abs(flat - low) <= near) | (np.abs(flat - high) <= near)
    often = stuck.mean(axis=0) >= SATURATED
    if often.any() and not (flat == flat[:1]).all():
        yield _finding(
            "RW313",
            _elements(port, often),
            f"the output is at its limit in {stuck.mean():.0%} of all steps on inputs in range",
            "check the scale of observations and actions, or give the inputs their real limits: "
            "about={…: rw.About(low=…, high=…)}",
        )


def _finding(code: str, where: str, what: str, hint: str) -> Finding:
    return Finding(code=code, where=where, what=what, hint=hint, severity="warning")


def _elements(port: Port, mask: Any) -> str:
    """`actions`, or `actions[knee, 3]` where only some elements are meant."""
    if mask.all() or mask.ndim != 1:
        return port.name
    names = port.about.elements or tuple(map(str, range(mask.size)))
    return f"{port.name}[{', '.join(names[index] for index in np.flatnonzero(mask).tolist())}]"


def _same(one: Inputs, other: Inputs) -> bool:
    return all(np.array_equal(one[name], other[name], equal_nan=_float(one[name])) for name in one)


def _float(array: Array) -> bool:
    return bool(array.dtype.kind == "f")
