"""Plays the exported policy in Gymnasium. Needs no PyTorch."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import gymnasium

import roadworthy as rw


def play(policy: rw.Policy, world: gymnasium.Env, seed: int) -> float:  # type: ignore[type-arg]
    """The return of one episode."""
    observation, _ = world.reset(seed=seed)
    policy.reset()
    total, over = 0.0, False
    while not over:
        observation, reward, terminated, truncated, _ = world.step(policy.act(observation))
        total += float(reward)
        over = terminated or truncated
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--episodes", type=int, default=5)
    arguments = parser.parse_args()
    policy, world = rw.load(arguments.bundle), gymnasium.make("Pendulum-v1")
    for seed in range(arguments.episodes):
        print(f"seed {seed}: return {play(policy, world, seed):.0f}")
    print(f"torch imported: {'torch' in sys.modules}")


if __name__ == "__main__":
    main()
