"""What a flight says, in numbers: does the bundle repeat it, was it within limits and in time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from roadworthy.runtime.policy import Policy
from roadworthy.show.influence import element_name
from roadworthy.spec.flight import FlightRecord
from roadworthy.spec.port import BATCH, Array, Port
from roadworthy.spec.run import at, reset_rows, stacked
from roadworthy.spec.tolerance import gaps
from roadworthy.spec.trace import Trace

# A step is late where it begins more than so many periods after the one before.
LATE_PERIODS = 1.5
# Steps whose outputs are compared together: arrays cost less than steps one by one.
AT_ONCE = 1024


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Repeat:
    """The flight once more, through the bundle.

    start    the first of the kept steps that can be repeated: what was remembered is known there
    gaps     output → (steps,): the largest difference of each repeated step
    allowed  output → (steps,): what is allowed at that element
    """

    start: int
    gaps: dict[str, Array] = field(repr=False)
    allowed: dict[str, Array] = field(repr=False)

    @property
    def departures(self) -> dict[str, int]:
        """Output → the first of the kept steps at which it is out of tolerance, where there is."""
        beyond = {port: gap > self.allowed[port] for port, gap in self.gaps.items()}
        return {
            port: self.start + int(np.argmax(each)) for port, each in beyond.items() if each.any()
        }

    @property
    def steps(self) -> int:
        return max(len(each) for each in self.gaps.values())


def repeated(policy: Policy, record: FlightRecord) -> Repeat | None:
    """The recorded inputs and resets through the policy; None where no step can be repeated.

    Wherever the flight looked at memory, the repetition goes on from what it saw: a small
    difference does not grow over an hour.
    """
    looked = {int(step): at for at, step in enumerate(record.frames)}
    start = _start(record)
    if start is None:
        return None
    parts: dict[str, list[tuple[Array, Array]]] = {port: [] for port in record.outputs}
    for begin in range(start, record.steps, AT_ONCE):
        end = min(begin + AT_ONCE, record.steps)
        got = []
        for step in range(begin, end):
            reset_rows(policy, record.resets[step])
            if step in looked:
                _put_back(policy, record, looked[step])
            got.append(policy.step(at(record.inputs, step)))
        for port, values in stacked(got).items():
            parts[port].append(_worst(record.outputs[port][begin:end], values))
    policy.reset()
    joined = {
        port: [np.concatenate(each) for each in zip(*parts[port], strict=True)] for port in parts
    }
    return Repeat(
        start=start,
        gaps={port: gap for port, (gap, _) in joined.items()},
        allowed={port: allowed for port, (_, allowed) in joined.items()},
    )


def _worst(truth: Array, got: Array) -> tuple[Array, Array]:
    """(steps,): the gap of the element that takes most of what it may, and what it may."""
    gap, allowed = (each.reshape(len(truth), -1) for each in gaps(truth, got, rows_at=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.nan_to_num(gap / allowed, nan=0.0, posinf=np.inf)
    place = share.argmax(axis=1)[:, None]
    return (
        np.take_along_axis(gap, place, axis=1)[:, 0],
        np.take_along_axis(allowed, place, axis=1)[:, 0],
    )


def _start(record: FlightRecord) -> int | None:
    if not record.signature.memory and not record.signature.clock:
        return 0
    whole = np.flatnonzero(record.resets.all(axis=1))
    return min([int(each[0]) for each in (whole, record.frames) if len(each)], default=None)


def _put_back(policy: Policy, record: FlightRecord, frame: int) -> None:
    memory = {name: values[frame] for name, values in record.memory.items()}
    tick = int(record.ticks[frame])
    state = policy.state()
    policy.restore(replace(state, rows=record.rows, memory=memory, tick=tick, fresh=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class Excursion:
    """An element of an input that left a range: how far, how often, and at which step first."""

    port: str
    element: int
    name: str
    low: float
    high: float
    least: float
    most: float
    steps: int
    first: int


def excursions(record: FlightRecord, trace: Trace | None = None) -> list[Excursion]:
    """Elements that left their declared limits, or the range that the trace has, in any row."""
    found = []
    for port in record.signature.observed:
        values = by_element(port, record.inputs[port.name])
        ranges = _limits(port, values.shape[2]) if trace is None else _seen(port, trace)
        if ranges is None or ranges[0].shape != (values.shape[2],):
            continue
        low, high = ranges
        outside: Array = np.any((values < low) | (values > high), axis=1)
        for element in np.flatnonzero(outside.any(axis=0)).tolist():
            own = values[:, :, element]
            finite = own[np.isfinite(own)]
            found.append(
                Excursion(
                    port=port.name, element=element, name=_name(port, element),
                    low=float(low[element]), high=float(high[element]),
                    least=float(finite.min(initial=np.inf)),
                    most=float(finite.max(initial=-np.inf)),
                    steps=int(outside[:, element].sum()),
                    first=int(np.argmax(outside[:, element])),
                )
            )  # fmt: skip
    return found


def by_element(port: Port, values: Array) -> Array:
    """(steps, rows, elements) as float64."""
    axis = port.batch_axis
    rows = values[:, None] if axis is None else np.moveaxis(values, axis + 1, 1)
    return rows.reshape(*rows.shape[:2], -1).astype(np.float64)


def _limits(port: Port, count: int) -> tuple[Array, Array] | None:
    shape = tuple(dim for dim in port.shape if dim != BATCH)
    if any(isinstance(dim, str) for dim in shape) or port.about.low is port.about.high is None:
        return None
    sizes = tuple(int(dim) for dim in shape) or (1,)
    if int(np.prod(sizes)) != count:
        return None
    low, high = (
        np.broadcast_to(np.asarray(other if limit is None else limit, float), sizes).reshape(-1)
        for limit, other in ((port.about.low, -np.inf), (port.about.high, np.inf))
    )
    # A limit is written in decimals, and a sensor at its end stop gives the nearest float.
    slack = 1e-6 * np.maximum(np.abs(low), np.abs(high))
    slack = np.where(np.isfinite(slack), slack, 1e-6)
    return low - slack, high + slack


def _seen(port: Port, trace: Trace) -> tuple[Array, Array] | None:
    values = by_element(port, trace.inputs[port.name])
    finite = np.where(np.isfinite(values), values, np.nan)
    if np.isnan(finite).all(axis=(0, 1)).any():
        return None
    return np.nanmin(finite, axis=(0, 1)), np.nanmax(finite, axis=(0, 1))


def _name(port: Port, element: int) -> str:
    fixed = all(isinstance(dim, int) or dim == BATCH for dim in port.shape)
    return element_name(port, element) if fixed else f"{port.name}[{element}]"


def not_numbers(record: FlightRecord) -> Iterator[tuple[str, int, int]]:
    """Ports in which there is a NaN: the port, how many steps, and the first of them."""
    for side in (record.inputs, record.outputs):
        for port, values in side.items():
            if values.dtype.kind == "f":
                bad = np.isnan(values).reshape(len(values), -1).any(axis=1)
                if bad.any():
                    yield port, int(bad.sum()), int(np.argmax(bad))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timing:
    """When steps began: the time from each to the next, in seconds, and which were late.

    Steps after a reset do not count: between episodes a robot is put back on its feet.
    """

    intervals: Array
    late: Array
    slow: int


def timing(record: FlightRecord) -> Timing:
    intervals = np.diff(record.start_ns) / 1e9
    counted = ~record.resets[1:].any(axis=1)
    period = record.signature.period_s
    if period is None:
        none = np.zeros(0, dtype=np.int64)
        return Timing(intervals=intervals[counted], late=none, slow=0)
    late = np.flatnonzero(counted & (intervals > LATE_PERIODS * period)) + 1
    slow = int((record.took_ns > period * 1e9).sum())
    return Timing(intervals=intervals[counted], late=late, slow=slow)
