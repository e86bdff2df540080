"""Plays the exported policy in Gymnasium. Needs no PyTorch."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from world import make_world

import roadworthy as rw


def play(policy: rw.Policy, world: Any, seed: int) -> list[int]:
    """The actions of one episode; each step of it is worth a point."""
    observation, _ = world.reset(seed=seed)
    policy.reset()
    actions, over = [], False
    while not over:
        actions.append(int(policy.act(observation)))
        observation, _, terminated, truncated, _ = world.step(actions[-1])
        over = terminated or truncated
    return actions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--episodes", type=int, default=5)
    arguments = parser.parse_args()
    policy, world = rw.load(arguments.bundle), make_world()
    for seed in range(arguments.episodes):
        print(f"seed {seed}: return {len(play(policy, world, seed))}")
    print(f"torch imported: {'torch' in sys.modules}")


if __name__ == "__main__":
    main()
