"""TorchRL beside what was exported from it: Pong rollouts, their actions, and a PPO step.

A round of Pong is the same game (seed, sticky actions, frame skip 4) played from the raw screen by
the artifact in a bare ALE, and by TorchRL's own rollout. Every action is compared: each side sees
what its own actions led to, so one that differs would lead the games apart. All on one thread, in
turns. The name of this file is not torchrl.py, which would hide TorchRL from all that is here.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
import numpy as np
import torch
from tensordict import TensorDict
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torch import nn
from torchrl.envs import set_exploration_type
from torchrl.modules import ProbabilisticActor, TanhNormal

import roadworthy as rw
from roadworthy.runtime.latency import interleaved

PONG = Path(__file__).parent.parent / "examples" / "pong"


def trained_and_exported(folder: Path, *, frames: int, aoti: bool) -> tuple[Path, Path]:
    """The checkpoint and the bundle, made as the example says."""
    checkpoint, bundle = folder / "pong.pt", folder / "pong"
    also = ["--aoti"] if aoti else []
    for script, *arguments in (
        ["train.py", "--frames", str(frames), "--out", str(checkpoint)],
        ["export.py", str(checkpoint), "--out", str(bundle), *also],
    ):
        subprocess.run([sys.executable, str(PONG / script), *arguments], check=True)
    return checkpoint, bundle


def ways_to_play(checkpoint: Path, bundle: Path, steps: int) -> dict[str, Callable[[int], Any]]:
    """Name → a function from a seed to what was played."""
    sys.path.insert(0, str(PONG))
    rollout: Any = importlib.import_module("rollout")
    original = rollout.torchrl(checkpoint)

    def artifact(policy: rw.Policy) -> Callable[[int], Any]:
        return lambda seed: rollout.play(policy, rollout.game(seed), steps)

    ways = {"ONNX": artifact(rw.load(bundle))}
    if "aoti" in rw.Bundle.open(bundle).targets:
        ways["AOTI"] = artifact(rw.load(bundle, engine="aoti", trust=True))
    return ways | {"TorchRL": lambda seed: original(seed, steps)}


def pong(ways: dict[str, Callable[[int], Any]], rounds: int) -> dict[str, Any]:
    """Times and actions of all ways, round by round; one round that does not count goes before."""
    wall: dict[str, list[float]] = {name: [] for name in ways}
    cpu: dict[str, list[float]] = {name: [] for name in ways}
    equal, taken, total = Counter[str](), Counter[int](), 0
    for seed in range(-1, rounds):
        played = {}
        for name, way in ways.items():
            before = time.process_time()
            played[name] = way(abs(seed))
            if seed >= 0:
                cpu[name].append(time.process_time() - before)
                wall[name].append(played[name].seconds)
        if seed < 0:
            continue
        expected = played["TorchRL"].actions
        total += len(expected)
        taken.update(expected)
        for name, each in played.items():
            equal[name] += sum(a == b for a, b in zip(each.actions, expected, strict=True))
    medians = {name: statistics.median(each) for name, each in wall.items()}
    medians_cpu = {name: statistics.median(each) for name, each in cpu.items()}
    return {
        "steps_per_round": total // rounds,
        "rounds": rounds,
        "median_s": medians,
        "median_cpu_s": medians_cpu,
        "torchrl_over_onnx": medians["TorchRL"] / medians["ONNX"],
        "torchrl_over_onnx_cpu": medians_cpu["TorchRL"] / medians_cpu["ONNX"],
        "frames_compared": total,
        "actions_equal": {name: equal[name] for name in ways if name != "TorchRL"},
        "actions_taken": {str(action): taken[action] for action in sorted(taken)},
    }


def ppo_step(folder: Path, rounds: int) -> dict[str, Any]:
    """One step of a small PPO policy: NumPy to NumPy here, TensorDict to TensorDict there."""
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2),
        NormalParamExtractor(),
    )  # fmt: skip
    policy = ProbabilisticActor(
        TensorDictModule(network, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
    ).eval()
    rw.export(
        policy, folder, exploration="deterministic", example={"observation": torch.zeros(1, 3)}
    )
    artifact = rw.load(folder)
    feed = {"observation": np.full((1, 3), 0.3, np.float32)}
    data = TensorDict({"observation": torch.full((1, 3), 0.3)}, batch_size=[1])
    calls: dict[str, Callable[[], object]] = {
        "Policy.step": lambda: artifact.step(feed),
        "TorchRL policy": lambda: policy(data),
    }
    with torch.no_grad(), set_exploration_type("DETERMINISTIC"):
        latency = interleaved(calls, rounds=rounds)
    ratio = latency["TorchRL policy"].p50_us / latency["Policy.step"].p50_us
    return {
        "latency": {name: each.to_json() for name, each in latency.items()},
        "torchrl_over_step": ratio,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--frames", type=int, default=4_000, help="frames of training")
    parser.add_argument("--aoti", action="store_true")
    parser.add_argument("--out", type=Path, default=machine.RESULTS / "torchrl_rollouts.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        made = trained_and_exported(Path(scratch), frames=arguments.frames, aoti=arguments.aoti)
        played = pong(ways_to_play(*made, arguments.steps), arguments.rounds)
        step = ppo_step(Path(scratch) / "ppo", 20 * arguments.rounds)
    for name, seconds in played["median_s"].items():
        print(f"{played['steps_per_round']} steps of Pong, {name:<8}{seconds:8.2f} s")
    print(f"ratio {played['torchrl_over_onnx']:.2f}×, equal actions: ", end="")
    print(f"{played['actions_equal']} of {played['frames_compared']}")
    for name, each in step["latency"].items():
        print(f"PPO step, {name:<16}{each['p50_us']:8.1f} µs")
    print(f"ratio {step['torchrl_over_step']:.1f}×")
    print(f"written to {machine.write(arguments.out, {'pong': played, 'ppo_step': step})}")


if __name__ == "__main__":
    main()
