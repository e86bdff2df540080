"""Trains a DQN on Pong for a minute: enough to look at the ball, not to win.

One point in a hundred frames says little in so short a time, so that the training, and only the
training, is also paid for having the paddle where the ball is.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from agent import make_env, make_policy
from tensordict.nn import TensorDictSequential
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.envs import Transform
from torchrl.modules import EGreedyModule
from torchrl.objectives import DQNLoss, SoftUpdate

FRAMES_PER_BATCH = 100
UPDATES_PER_BATCH = 25
REMEMBERED = 2_000  # transitions: four float frames twice are 200 KB each
# Where Pong keeps the height of the paddle and of the ball, and how far apart they are in line.
PADDLE, BALL, IN_LINE = 51, 54, 7


class Follow(Transform):  # type: ignore[misc]
    """Adds to the reward by how much the paddle came closer to the ball."""

    def __init__(self, ale: Any) -> None:
        super().__init__()
        self.ale = ale
        self.distance = 0

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        ram, before = self.ale.getRAM(), self.distance
        self.distance = abs(int(ram[BALL]) - int(ram[PADDLE]) - IN_LINE) if ram[BALL] else 0
        if self.distance and before:
            next_tensordict["reward"] += (before - self.distance) / 10
        return next_tensordict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=4_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("pong.pt"))
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(1)
    env = make_env()
    env.append_transform(Follow(env.base_env.unwrapped.ale))
    env.set_seed(arguments.seed)
    policy = make_policy(env)
    explore = EGreedyModule(env.action_spec, eps_init=1.0, annealing_num_steps=arguments.frames)
    loss = DQNLoss(
        policy, action_space=env.action_spec, delay_value=True, loss_function="smooth_l1"
    )
    loss.make_value_estimator(gamma=0.8)
    optimiser = torch.optim.Adam(loss.parameters(), lr=3e-4)
    target = SoftUpdate(loss, eps=0.98)
    memory = ReplayBuffer(storage=LazyTensorStorage(REMEMBERED), batch_size=32)
    collector = Collector(
        env,
        TensorDictSequential(policy, explore),
        frames_per_batch=FRAMES_PER_BATCH,
        total_frames=arguments.frames,
        auto_register_policy_transforms=False,
    )
    for batch, played in enumerate(collector, start=1):
        memory.extend(played)
        for _ in range(UPDATES_PER_BATCH):
            losses = loss(memory.sample())
            losses["loss"].backward()
            optimiser.step()
            optimiser.zero_grad()
            target.step()
        explore.step(FRAMES_PER_BATCH)
        if batch % 10 == 0:
            reward = played["next", "reward"].mean().item()
            print(f"{batch * FRAMES_PER_BATCH:>6} frames, mean reward {reward:.3f}", flush=True)
    torch.save(policy.state_dict(), arguments.out)
    print(f"saved {arguments.out}")


if __name__ == "__main__":
    main()
