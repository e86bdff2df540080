"""Trains the recurrent policy for a minute with REINFORCE: what led to more is done more."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from agent import make_env, make_policy
from torchrl.collectors import Collector
from torchrl.envs import ExplorationType, set_exploration_type
from torchrl.modules import set_recurrent_mode
from torchrl.objectives.value.functional import reward2go

FRAMES_PER_BATCH = 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("cartpole.pt"))
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(1)
    policy = make_policy()
    env = make_env(policy)
    env.set_seed(arguments.seed)
    optimiser = torch.optim.Adam(policy.parameters(), lr=1e-2)
    collector = Collector(
        env,
        policy,
        frames_per_batch=min(FRAMES_PER_BATCH, arguments.frames),
        total_frames=arguments.frames,
        exploration_type=ExplorationType.RANDOM,
    )
    for batch, played in enumerate(collector, start=1):
        gained = reward2go(played["next", "reward"], played["next", "done"], gamma=0.98)
        better = ((gained - gained.mean()) / gained.std()).squeeze(-1)
        with set_recurrent_mode(True), set_exploration_type(ExplorationType.DETERMINISTIC):
            chances = policy.get_dist(played).log_prob(played["action"])
        (-(chances * better).mean()).backward()
        optimiser.step()
        optimiser.zero_grad()
        if batch % 5 == 0:
            longest = played["next", "step_count"].max().item()
            print(f"{batch * FRAMES_PER_BATCH:>6} frames, longest episode {longest}", flush=True)
    torch.save(policy.state_dict(), arguments.out)
    print(f"saved {arguments.out}")


if __name__ == "__main__":
    main()
