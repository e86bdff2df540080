"""What the artifact does with the recorded steps of its original, in numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter_ns

import numpy as np

from roadworthy.runtime.policy import Policy
from roadworthy.spec.port import Array
from roadworthy.spec.run import Arrays, record_free
from roadworthy.spec.tolerance import gaps
from roadworthy.spec.trace import Trace

WARM_STEPS = 50
TIMED_STEPS = 2000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replay:
    """The trace through the artifact: port → (steps, *shape), and how far each element is off.

    memory   what is remembered after each step
    allowed  how far an element may be off; infinite where rounding may turn a choice
    """

    trace: Trace
    outputs: Mapping[str, Array]
    memory: Mapping[str, Array]
    gaps: Arrays
    allowed: Arrays

    @property
    def departures(self) -> dict[str, int | None]:
        """Port → the first step that is out of tolerance; None where there is none."""
        found: dict[str, int | None] = {}
        for port, gap in self.gaps.items():
            beyond = (gap > self.allowed[port]).reshape(len(gap), -1).any(axis=1)
            found[port] = int(np.argmax(beyond)) if beyond.any() else None
        return found

    def worst_by_step(self, port: str) -> tuple[Array, Array]:
        """(steps,): the largest gap of a step, and what is allowed at that element."""
        gap = self.gaps[port].reshape(self.trace.steps, -1)
        place = gap.argmax(axis=1)[:, None]
        allowed = self.allowed[port].reshape(self.trace.steps, -1)
        return (
            np.take_along_axis(gap, place, axis=1)[:, 0],
            np.take_along_axis(allowed, place, axis=1)[:, 0],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A stretch of one row between two resets."""

    row: int
    start: int
    stop: int


def replayed(policy: Policy, trace: Trace) -> Replay:
    """The recorded steps through the artifact: its own memory, the recorded resets."""
    run = record_free(policy, trace)
    got = run.outputs
    off, allowed = {}, {}
    for port, truth in trace.outputs.items():
        off[port], fixed = gaps(truth, got[port], rows_at=1)
        allowed[port] = trace.allowed.get(port, fixed)
    return Replay(
        trace=trace,
        outputs=got,
        memory=run.next_memory,
        gaps=off,
        allowed=allowed,
    )


def episodes(trace: Trace) -> Iterator[Episode]:
    """Every episode of every row."""
    for row in range(trace.rows):
        begins = [*np.flatnonzero(trace.resets[:, row]).tolist(), trace.steps]
        for start, stop in pairwise(begins):
            yield Episode(row=row, start=start, stop=stop)


def chosen(replay: Replay, count: int) -> list[Episode]:
    """The episodes to look at: the one that departs furthest, then the longest, of other rows."""

    def share(each: Episode) -> float:
        """How much of what is allowed the episode takes, at its worst."""
        worst = 0.0
        for port, gap in replay.gaps.items():
            if gap.ndim < 2 or gap.shape[1] != replay.trace.rows:
                continue
            part = (slice(each.start, each.stop), each.row)
            with np.errstate(divide="ignore", invalid="ignore"):
                taken = np.nan_to_num(gap[part] / replay.allowed[port][part], posinf=1e9)
            worst = max(worst, float(taken.max(initial=0.0)))
        return worst

    left = sorted(episodes(replay.trace), key=lambda each: (-share(each), each.start - each.stop))
    picked = left[:1]
    for each in sorted(left[1:], key=lambda each: each.start - each.stop):
        if len(picked) < count and all(each.row != other.row for other in picked):
            picked.append(each)
    return picked


def step_times_us(policy: Policy, trace: Trace, steps: int = TIMED_STEPS) -> Array:
    """How long each of many single steps took here, in microseconds."""
    row = policy.signature.fixed_rows
    feed = {
        port.name: values if row or port.batch_axis is None else np.take(values, [0], axis=axis)
        for port in policy.signature.inputs
        for values in (trace.inputs[port.name][0],)
        for axis in (port.batch_axis or 0,)
    }
    policy.reset()
    for _ in range(WARM_STEPS):
        policy.step(feed)
    taken = np.empty(steps)
    for step in range(steps):
        start = perf_counter_ns()
        policy.step(feed)
        taken[step] = perf_counter_ns() - start
    policy.reset()
    return taken / 1000
