"""How long a call takes, measured so that rivals share the machine's good and bad moments."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

BURST = 10
WARM_CALLS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Median, 99th percentile and worst of many calls, in microseconds."""

    calls: int
    p50_us: float
    p99_us: float
    max_us: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def interleaved(
    calls: Mapping[str, Callable[[], object]], *, rounds: int = 200
) -> dict[str, Latency]:
    """The latency of each call, in short bursts that take turns.

    Each burst begins with a few calls that do not count: a rival has just used the caches.
    """
    taken: dict[str, list[int]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            for _ in range(WARM_CALLS):
                call()
            for _ in range(BURST):
                start = time.perf_counter_ns()
                call()
                taken[name].append(time.perf_counter_ns() - start)
    return {name: _latency(nanoseconds) for name, nanoseconds in taken.items()}


def _latency(nanoseconds: list[int]) -> Latency:
    p50, p99, worst = np.percentile(np.asarray(nanoseconds) / 1000, (50, 99, 100))
    return Latency(
        calls=len(nanoseconds), p50_us=float(p50), p99_us=float(p99), max_us=float(worst)
    )
