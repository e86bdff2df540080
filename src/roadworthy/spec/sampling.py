"""Where to look: what is known about a policy that makes some values worth trying."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from roadworthy.spec.port import Numbers, freeze, jsonable

# Why a corner is left out.
RAISES = "the original raises"
NO_NUMBER = "the original gives no number"
# The longest life of a row that is recorded or compared.
MOST_STEPS = 1024
# Steps beyond the horizon: what comes after it is seen too, and longer than a turned comparison.
BEYOND = 24
# Steps after the long life, in which rows begin and end as elsewhere.
AFTER_LIFE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Typical:
    """Where the values of a port usually are: the statistics of its normaliser."""

    mean: Numbers
    spread: Numbers

    def __post_init__(self) -> None:
        for side in ("mean", "spread"):
            object.__setattr__(self, side, freeze(getattr(self, side)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """What the graph, the statistics and the original say about the values worth trying.

    thresholds  the constants that the graph compares with, clips to or wraps at
    horizon     the steps after which memory holds nothing new: the length of delays and counters
    typical     port → where its values usually are
    left_out    port → corner → why the original has no answer there: nothing to compare with
    """

    thresholds: tuple[float, ...] = ()
    horizon: int = 0
    typical: Mapping[str, Typical] = field(default_factory=dict)
    left_out: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def life(self) -> int:
        """The steps that a row must live to show all that it can do; 0 where a few will do."""
        return min(self.horizon + BEYOND, MOST_STEPS) if self.horizon else 0

    @property
    def beyond_reach(self) -> bool:
        """Whether the horizon is further than any row lives."""
        return self.horizon + BEYOND > MOST_STEPS

    def steps(self, usual: int, *, rows: int) -> int:
        """How many steps to draw: the usual number, or what the horizon needs."""
        if not self.horizon:
            return usual
        # One row moves and one stands still; a single row does one after the other.
        lives = 1 if rows > 1 else 2
        return max(usual, min(lives * self.life + AFTER_LIFE, MOST_STEPS))

    def to_json(self) -> dict[str, Any]:
        return {
            "thresholds": list(self.thresholds),
            "horizon": self.horizon,
            "typical": {
                port: {"mean": jsonable(each.mean), "spread": jsonable(each.spread)}
                for port, each in self.typical.items()
            },
            "left_out": {port: dict(corners) for port, corners in self.left_out.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Sampling:
        return cls(
            thresholds=tuple(data["thresholds"]),
            horizon=data["horizon"],
            typical={port: Typical(**each) for port, each in data["typical"].items()},
            left_out=data["left_out"],
        )
