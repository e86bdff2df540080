"""Exports the PPO policy with its normaliser and its action scaling, and plays it beside TorchRL.

Both play the same seed: TorchRL in its own rollout, the artifact alone in Gymnasium. Each sees what
its own actions lead to, so that a wrong sign or a stale statistic would drive them apart.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from agent import PERIOD_S, load
from torchrl.envs import set_exploration_type

import roadworthy as rw


def torchrl_actions(env: Any, policy: Any, *, steps: int, seed: int) -> np.ndarray:
    """What TorchRL makes the pendulum do, in N·m: its actions behind its own transforms."""
    with torch.no_grad(), set_exploration_type("DETERMINISTIC"):
        data = env.rollout(steps, policy, auto_reset=False, tensordict=env.reset(seed=seed))
        return np.asarray(env.transform.inv(data.select("action"))["action"])


def artifact_actions(policy: rw.Policy, *, steps: int, seed: int) -> np.ndarray:
    """What the artifact makes the pendulum do."""
    world = gymnasium.make("Pendulum-v1")
    observation, _ = world.reset(seed=seed)
    actions = []
    for _ in range(steps):
        actions.append(policy.act(observation))
        observation, *_ = world.step(actions[-1])
    return np.stack(actions)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--out", type=Path, default=Path("pendulum"))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    env, policy = load(arguments.checkpoint)
    bundle = rw.export(
        policy, arguments.out, exploration="deterministic", env=env, period_s=PERIOD_S
    )
    print(bundle.signature)
    game = {"steps": arguments.steps, "seed": arguments.seed}
    expected = torchrl_actions(env, policy, **game)
    worst = float(np.abs(artifact_actions(rw.load(arguments.out), **game) - expected).max())
    print(f"{len(expected)} steps in closed loop, largest difference to TorchRL: {worst:.1e} N·m")


if __name__ == "__main__":
    main()
