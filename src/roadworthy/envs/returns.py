"""Whether one policy earns as much as another: a paired test of non-inferiority."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

RESAMPLES = 10_000
CONFIDENCE = 0.95
# How much of the original's mean return may be lost where no margin is given.
SHARE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Returns:
    """The mean returns of both sides, and the interval of the mean difference."""

    episodes: int
    original: float
    artifact: float
    low: float
    high: float
    margin: float

    @property
    def not_inferior(self) -> bool:
        return self.low >= -self.margin

    def __str__(self) -> str:
        return (
            f"mean return {self.artifact:.4g} against {self.original:.4g} in {self.episodes} "
            f"episodes, difference in [{self.low:.3g}, {self.high:.3g}] "
            f"({CONFIDENCE:.0%} interval, margin {self.margin:.3g})"
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def compare_returns(
    original: Sequence[float], artifact: Sequence[float], *, margin: float | None, seed: int
) -> Returns:
    """The paired bootstrap: episodes with the same seed are compared with each other."""
    count = min(len(original), len(artifact))
    theirs, ours = np.asarray(original[:count]), np.asarray(artifact[:count])
    differences = ours - theirs
    rng = np.random.default_rng(seed)
    picked = rng.integers(0, count, size=(RESAMPLES, count))
    means = differences[picked].mean(axis=1)
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(means, (tail, 100 - tail))
    allowed = SHARE * abs(float(theirs.mean())) if margin is None else margin
    return Returns(
        episodes=count,
        original=float(theirs.mean()),
        artifact=float(ours.mean()),
        low=float(low),
        high=float(high),
        margin=allowed,
    )
