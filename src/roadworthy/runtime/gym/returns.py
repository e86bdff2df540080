"""Whether one policy earns something else than another: a paired test, in both directions.

Episodes part although nothing is wrong: rounding grows in a chaotic world, and a random one never
repeats itself. So the difference is measured beside that of the original and its own twin, whose
observations are moved by a unit in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from roadworthy.spec.port import Array

RESAMPLES = 10_000
CONFIDENCE = 0.99
# How much of the original's mean return counts as nothing where no margin is given.
SHARE = 0.05
# The quantile of the normal distribution that belongs to the confidence, in both directions.
_NORMAL = 2.5758


@dataclass(frozen=True, slots=True, kw_only=True)
class Returns:
    """The mean returns of all sides, and the intervals of the mean differences.

    low, high            artifact − original
    twin                 mean return of the original's twin; None where none was played
    twin_low, twin_high  artifact − twin
    power                the smallest mean difference that would have been seen
    episodes_needed      how many episodes it takes to see one of twice the margin
    """

    episodes: int
    original: float
    artifact: float
    low: float
    high: float
    margin: float
    power: float
    episodes_needed: int | None
    twin: float | None = None
    twin_low: float | None = None
    twin_high: float | None = None

    @property
    def differs(self) -> bool:
        """Whether the artifact earns more or less, by more than the margin and than its twin."""
        less = self.high < -self.margin and (self.twin_high is None or self.twin_high < 0)
        more = self.low > self.margin and (self.twin_low is None or self.twin_low > 0)
        return less or more

    @property
    def verdict(self) -> str:
        if not self.differs:
            return "earns what the original earns"
        return f"earns {'less' if self.artifact < self.original else 'more'} than the original"

    def __str__(self) -> str:
        twin = "" if self.twin is None else f", {self.twin:.4g} for the original's own twin"
        return (
            f"mean return {self.artifact:.4g} against {self.original:.4g}{twin} in "
            f"{self.episodes} episodes, difference in [{self.low:.3g}, {self.high:.3g}] "
            f"({CONFIDENCE:.0%} interval, margin {self.margin:.3g}); {self.power:.3g} would have "
            "been seen"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            key: str(value) if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in asdict(self).items()
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Returns:
        # What is not finite was written as a word.
        read: dict[str, Any] = {
            key: float(value) if isinstance(value, str) else value for key, value in data.items()
        }
        return cls(**read)


def compare_returns(
    original: Sequence[float],
    artifact: Sequence[float],
    *,
    margin: float | None,
    seed: int,
    twin: Sequence[float] | None = None,
) -> Returns:
    """The paired comparison: episodes with the same seed are compared with each other."""
    count = min(len(original), len(artifact))
    theirs, ours = np.asarray(original[:count]), np.asarray(artifact[:count])
    low, high = _interval(ours - theirs, seed)
    allowed = SHARE * abs(float(theirs.mean())) if margin is None else margin
    half = (high - low) / 2
    needed = None
    if math.isfinite(half) and allowed > 0:
        needed = max(2, math.ceil(count * (half / allowed) ** 2))
    third = None if twin is None else np.asarray(twin[:count])
    twin_low, twin_high = (None, None) if third is None else _interval(ours - third, seed)
    return Returns(
        episodes=count,
        original=float(theirs.mean()),
        artifact=float(ours.mean()),
        low=low,
        high=high,
        margin=allowed,
        power=allowed + half,
        episodes_needed=needed,
        twin=None if third is None else float(third.mean()),
        twin_low=twin_low,
        twin_high=twin_high,
    )


def _interval(differences: Array, seed: int) -> tuple[float, float]:
    """The bootstrap interval of the mean; one episode proves nothing unless both are equal."""
    count = len(differences)
    mean = float(differences.mean())
    if not differences.any():
        return 0.0, 0.0
    if count == 1:
        return -math.inf, math.inf
    picked = np.random.default_rng(seed).integers(0, count, size=(RESAMPLES, count))
    means = differences[picked].mean(axis=1)
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(means, (tail, 100 - tail))
    # Few episodes show too little of the spread: wider, as Student's distribution is.
    wider = _student(count - 1) / _NORMAL
    return mean + wider * (float(low) - mean), mean + wider * (float(high) - mean)


def _student(freedom: int) -> float:
    """The quantile of Student's distribution, by its expansion around the normal one."""
    z = _NORMAL
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return float(z + first / freedom + second / freedom**2)
