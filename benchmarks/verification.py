"""How long it takes to verify 20 episodes, against playing them in PyTorch."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import gymnasium
import machine
import torch

import roadworthy as rw

EPISODES = 20


def balancing() -> torch.nn.Sequential:
    """An MLP 4-64-64-2 that balances the pole: a linear controller on its first units."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(4, 64), torch.nn.Linear(64, 64), torch.nn.Linear(64, 2)]
    gains = torch.tensor([0.1, 0.3, 1.0, 0.5])
    with torch.no_grad():
        for layer in layers:
            layer.weight.mul_(0.001)
            layer.bias.zero_()
        layers[0].weight[:2] = torch.stack([-gains, gains])
        layers[1].weight[:2, :2] = torch.eye(2)
        layers[2].weight[:, :2] = torch.eye(2)
    return torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2])


def played_in_pytorch(net: torch.nn.Module, env: Any) -> int:
    """The number of steps in all episodes, played in the plainest loop."""
    steps = 0
    with torch.no_grad():
        for seed in range(EPISODES):
            obs, _ = env.reset(seed=seed)
            over = False
            while not over:
                action = int(net(torch.as_tensor(obs)[None]).argmax(-1)[0])
                obs, _, terminated, truncated, _ = env.step(action)
                over = terminated or truncated
                steps += 1
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=machine.RESULTS / "verification.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    net, env = balancing(), gymnasium.make("CartPole-v1")
    plain, verified, steps = [], [], 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "cartpole"
        rw.export(net, folder, example={"obs": torch.zeros(1, 4)}, action=rw.Argmax())
        for _ in range(arguments.rounds):
            start = time.perf_counter()
            steps = played_in_pytorch(net, env)
            plain.append(time.perf_counter() - start)
            start = time.perf_counter()
            certificate = rw.verify(folder, against=net, env="CartPole-v1", episodes=EPISODES)
            verified.append(time.perf_counter() - start)
            certificate.raise_if_failed()
    results = {
        "episodes": EPISODES,
        "steps": steps,
        "pytorch_s": round(statistics.median(plain), 3),
        "verify_s": round(statistics.median(verified), 3),
        "ratio": round(statistics.median(v / p for v, p in zip(verified, plain, strict=True)), 2),
    }
    print(results)
    print(certificate)
    machine.write(arguments.out, results)


if __name__ == "__main__":
    main()
