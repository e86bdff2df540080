"""One step of a policy: `Policy.step` beside a plain `InferenceSession.run` and eager PyTorch.

All three run on one thread, in bursts that take turns, NumPy in and NumPy out.
The plain session has the same file and the same options; its memory is fed back by hand.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
import numpy as np
import onnxruntime
import torch
from torch import Tensor, nn

import roadworthy as rw
from roadworthy.runtime.latency import interleaved
from roadworthy.spec.bundle import POLICY


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(48, 256)
        self.head = nn.Sequential(nn.Linear(256, 128), nn.ELU(), nn.Linear(128, 12))

    def forward(self, obs: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        features, (h, c) = self.rnn(obs.unsqueeze(0), (h, c))
        return self.head(features.squeeze(0)), h, c


def mlp(sizes: list[int], activation: type[nn.Module]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for wide, narrow in itertools.pairwise(sizes):
        layers += [nn.Linear(wide, narrow), activation()]
    return nn.Sequential(*layers[:-1])


def sources() -> dict[str, rw.Source]:
    torch.manual_seed(0)
    statistics = rw.EpsInsideRoot(
        mean=np.linspace(-1, 1, 48), var=np.linspace(0.5, 2, 48), eps=1e-8, clip=10.0
    )
    zeros = torch.zeros(1, 1, 256)
    return {
        "MLP 48-512-256-128-12 with normaliser": rw.Source(
            mlp([48, 512, 256, 128, 12], nn.ELU),
            example={"obs": torch.zeros(1, 48)},
            normalizer=statistics,
        ),
        "MLP 4-64-64-2": rw.Source(
            mlp([4, 64, 64, 2], nn.Tanh), example={"obs": torch.zeros(1, 4)}
        ),
        "LSTM 256": rw.Source(
            Lstm(), example={"obs": torch.zeros(1, 48)}, memory={"h": zeros, "c": zeros}
        ),
    }


def plain_session(model: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_cpu_mem_arena = False
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def plain_run(session: Any, policy: rw.Policy, obs: Any) -> Callable[[], object]:
    feeds = {"obs": obs} | {m.input: m.fresh(1) for m in policy.signature.memory}
    memory = [m.input for m in policy.signature.memory]

    def call() -> object:
        actions, *state = session.run(None, feeds)
        for name, value in zip(memory, state, strict=True):
            feeds[name] = value
        return actions

    return call


def eager(source: rw.Source, obs: Any) -> Callable[[], object]:
    module = source.module.eval()
    statistics = source.normalizer
    mean = divisor = None
    if isinstance(statistics, rw.EpsInsideRoot):
        mean = torch.tensor(statistics.mean)
        divisor = (torch.tensor(statistics.var) + statistics.eps).sqrt()
    state = list(source.memory.values())

    def call() -> object:
        with torch.no_grad():
            x = torch.from_numpy(obs)
            if mean is not None and divisor is not None:
                x = ((x - mean) / divisor).clamp(-10, 10)
            result = module(x, *state)
            if state:
                result, *state[:] = result
            return result.numpy()

    return call


def measure(source: rw.Source, folder: Path, rounds: int) -> dict[str, Any]:
    bundle = rw.export(source, folder)
    policy = rw.load(folder)
    width = int(policy.signature.inputs[0].shape[1])
    obs = np.random.default_rng(0).standard_normal((1, width)).astype(np.float32)
    feed = {"obs": obs}
    latencies = interleaved(
        {
            "Policy.step": lambda: policy.step(feed),
            "InferenceSession.run": plain_run(plain_session(bundle.files[POLICY]), policy, obs),
            "PyTorch eager": eager(source, obs),
        },
        rounds=rounds,
    )
    ours = latencies["Policy.step"].p50_us
    return {
        "latency": {name: latency.to_json() for name, latency in latencies.items()},
        "run_over_step": latencies["InferenceSession.run"].p50_us / ours,
        "torch_over_step": latencies["PyTorch eager"].p50_us / ours,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--out", type=Path, default=machine.RESULTS / "step_latency.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    print(
        f"{'p50 / p99 µs':<40}{'step':>16}{'run':>16}{'PyTorch':>16}"
        f"{'run/step':>10}{'torch/step':>12}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, source in sources().items():
            results[name] = measure(source, Path(folder) / name.replace(" ", "-"), arguments.rounds)
            row = [
                f"{v['p50_us']:.1f} / {v['p99_us']:.1f}" for v in results[name]["latency"].values()
            ]
            ratios = (
                f"{results[name]['run_over_step']:>10.2f}{results[name]['torch_over_step']:>12.2f}"
            )
            print(f"{name:<40}{row[0]:>16}{row[1]:>16}{row[2]:>16}{ratios}")
    print(f"written to {machine.write(arguments.out, {'policies': results})}")


if __name__ == "__main__":
    main()
