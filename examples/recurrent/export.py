"""Exports the recurrent policy, and plays it beside TorchRL.

Both play the same seeds: TorchRL in its own rollout, the artifact alone in Gymnasium. The hidden
state is the artifact's own memory; `is_init` became `policy.reset()`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from agent import load
from rollout import play
from torchrl.envs import set_exploration_type
from world import PERIOD_S, make_world

import roadworthy as rw

MOST_STEPS = 500


def torchrl_actions(env: Any, policy: Any, seed: int) -> list[int]:
    """What TorchRL does in one episode."""
    with torch.no_grad(), set_exploration_type("DETERMINISTIC"):
        data = env.rollout(MOST_STEPS, policy, auto_reset=False, tensordict=env.reset(seed=seed))
    actions: list[int] = data["action"].tolist()
    return actions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--out", type=Path, default=Path("cartpole"))
    parser.add_argument("--episodes", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    env, policy = load(arguments.checkpoint)
    bundle = rw.export(
        policy,
        arguments.out,
        exploration="deterministic",
        env=env,
        table=["left", "right"],
        period_s=PERIOD_S,
    )
    print(bundle.signature)
    artifact, world = rw.load(arguments.out), make_world()
    for seed in range(arguments.episodes):
        expected, got = torchrl_actions(env, policy, seed), play(artifact, world, seed)
        same = "the same" if got == expected else "DIFFERENT"
        print(f"seed {seed}: {len(got)} steps, TorchRL {len(expected)}, {same} actions")


if __name__ == "__main__":
    main()
