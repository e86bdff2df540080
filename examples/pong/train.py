"""Trains a DQN on Pong, briefly: enough to have a network with opinions, not to win."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from agent import make_env, make_policy
from tensordict.nn import TensorDictSequential
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.modules import EGreedyModule
from torchrl.objectives import DQNLoss, SoftUpdate

FRAMES_PER_BATCH = 100
UPDATES_PER_BATCH = 10
REMEMBERED = 1_000  # transitions: four float frames twice are 200 KB each


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=4_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("pong.pt"))
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(1)
    env = make_env()
    env.set_seed(arguments.seed)
    policy = make_policy(env)
    explore = EGreedyModule(env.action_spec, eps_init=1.0, annealing_num_steps=arguments.frames)
    loss = DQNLoss(policy, action_space=env.action_spec, delay_value=True)
    optimiser = torch.optim.Adam(loss.parameters(), lr=2.5e-4)
    target = SoftUpdate(loss, eps=0.99)
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
            print(f"{batch * FRAMES_PER_BATCH:>6} frames, loss {losses['loss'].item():.4f}")
    torch.save(policy.state_dict(), arguments.out)
    print(f"saved {arguments.out}")


if __name__ == "__main__":
    main()
