"""Which inputs move which outputs: derivatives of the artifact, by finite differences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from roadworthy.runtime.policy import Policy
from roadworthy.spec.port import BATCH, Array, Port
from roadworthy.spec.trace import Trace

# At so many recorded states the inputs are nudged, each by this part of how far it moves.
STATES = 12
NUDGE = 0.05
# A choice among few actions moves by leaps: only a whole spread shows them.
LEAP = 1.0
# More elements than these are not told apart by an eye; an image is one block.
MOST_ELEMENTS = 64
MOST_RUNS = 512


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Influence:
    """(outputs, inputs): how far each output moves when an input moves by its usual spread.

    In units of the output's own spread, with the sign that it has in the mean.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: Array


def influence(policy: Policy, trace: Trace) -> Influence | None:
    """The influence of each input element at recorded states; None where nothing can be nudged."""
    signature = policy.signature
    inputs = [
        port
        for port in signature.inputs
        if port.dtype.startswith("float") and _elements(port) and port.batch_axis == 0
    ]
    outputs = [port for port in signature.outputs if _elements(port) and port.batch_axis == 0]
    if not inputs or not outputs or signature.fixed_rows or trace.steps < 2:
        return None
    steps = np.unique(np.linspace(0, trace.steps - 1, STATES).astype(int))
    part = NUDGE if any(port.dtype.startswith("float") for port in outputs) else LEAP
    columns: list[str] = []
    moved: list[Array] = []
    base = _outputs(policy, trace, outputs, steps, None)
    for port in inputs:
        values = trace.inputs[port.name]
        flat = values.reshape(-1, _elements(port)).astype(np.float64)
        spread = np.where(np.isfinite(flat), flat, 0.0).std(axis=0)
        for element in range(_elements(port)):
            if len(columns) >= MOST_RUNS:
                break
            nudge = part * (float(spread[element]) or 1.0)
            both = [
                _outputs(policy, trace, outputs, steps, (port, element, sign * nudge))
                for sign in (1, -1)
            ]
            with np.errstate(invalid="ignore"):
                moved.append((both[0] - both[1]) / (2 * part))
            columns.append(element_name(port, element))
    rows = [element_name(port, each) for port in outputs for each in range(_elements(port))]
    with np.errstate(invalid="ignore"):
        scale = np.where(np.isfinite(base), base, 0.0).std(axis=0)
        values = _typical(np.stack(moved, axis=-1)) / np.where(scale > 0, scale, 1.0)[:, None]
    return Influence(rows=tuple(rows), columns=tuple(columns), values=np.nan_to_num(values))


def _typical(each: Array) -> Array:
    """(states, outputs, inputs) → its size over all states, with the sign of the mean."""
    finite = np.where(np.isfinite(each), each, 0.0)
    sign = np.where(finite.mean(axis=0) < 0, -1.0, 1.0)
    return np.asarray(sign * np.sqrt((finite**2).mean(axis=0)))


def _outputs(
    policy: Policy,
    trace: Trace,
    outputs: list[Port],
    steps: Array,
    nudged: tuple[Port, int, float] | None,
) -> Array:
    """(states, output elements): all outputs of one step from a reset, at the recorded inputs."""
    feed = {}
    for port in policy.signature.inputs:
        values = trace.inputs[port.name][steps]
        # One state a row: the first row of each recorded step.
        feed[port.name] = values[:, 0] if port.batch_axis == 0 else values[0]
    if nudged is not None:
        port, element, by = nudged
        changed = feed[port.name].copy()
        changed.reshape(len(changed), -1)[:, element] += by
        feed[port.name] = changed
    policy.reset()
    got = policy.step(feed)
    policy.reset()
    flat = [got[port.name].reshape(len(steps), -1).astype(np.float64) for port in outputs]
    return np.concatenate(flat, axis=1)


def _elements(port: Port) -> int:
    """How many elements a row has; 0 where that varies or nobody could tell them apart."""
    sizes = [dim for dim in port.shape if dim != BATCH]
    if any(isinstance(dim, str) for dim in sizes):
        return 0
    count = int(np.prod([int(dim) for dim in sizes], initial=1))
    return count if count <= MOST_ELEMENTS else 0


def element_name(port: Port, element: int) -> str:
    """`obs.cart position` where elements have names, `obs[3]` where they have none."""
    names = port.about.elements
    row = tuple(int(dim) for dim in port.shape if isinstance(dim, int))
    if len(row) == 1 and names:
        return f"{port.name}.{names[element]}"
    if not row:
        return port.name
    place = ", ".join(str(int(axis)) for axis in np.unravel_index(element, row))
    return f"{port.name}[{place}]"
