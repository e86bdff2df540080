"""Trains PPO on Pendulum for a minute."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from agent import make_env, make_policy, save
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

FRAMES_PER_BATCH = 1_000
EPOCHS, MINIBATCH = 10, 250


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=30_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("pendulum.pt"))
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(1)
    env, policy = make_env(), make_policy()
    env.set_seed(arguments.seed)
    critic = TensorDictModule(
        nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)),
        in_keys=["observation"],
        out_keys=["state_value"],
    )
    advantage = GAE(gamma=0.9, lmbda=0.95, value_network=critic, average_gae=True)
    loss = ClipPPOLoss(policy, critic, entropy_coeff=0.0)
    optimiser = torch.optim.Adam(loss.parameters(), lr=1e-3)
    collector = Collector(
        env,
        policy,
        frames_per_batch=min(FRAMES_PER_BATCH, arguments.frames),
        total_frames=arguments.frames,
        auto_register_policy_transforms=False,
    )
    for batch, played in enumerate(collector, start=1):
        for _ in range(EPOCHS):
            with torch.no_grad():
                advantage(played)
            for indices in torch.split(torch.randperm(len(played)), MINIBATCH):
                losses = loss(played[indices])
                sum(losses[name] for name in ("loss_objective", "loss_critic")).backward()
                optimiser.step()
                optimiser.zero_grad()
        if batch % 5 == 0:
            reward = played["next", "reward"].mean().item()
            print(f"{batch * FRAMES_PER_BATCH:>6} frames, mean reward {reward:.2f}", flush=True)
    save(arguments.out, env, policy)
    print(f"saved {arguments.out}")


if __name__ == "__main__":
    main()
