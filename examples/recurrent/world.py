"""CartPole whose sensors tell positions, but no velocities. No PyTorch here."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.wrappers import TransformObservation

POSITIONS = slice(0, 4, 2)  # of cart and pole; the velocities stand between and behind them
PERIOD_S = 0.02


def make_world() -> Any:
    full: Any = gymnasium.make("CartPole-v1")
    space = full.observation_space
    seen = gymnasium.spaces.Box(space.low[POSITIONS], space.high[POSITIONS])
    return TransformObservation(full, lambda observation: observation[POSITIONS], seen)
