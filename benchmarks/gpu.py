"""One step on a GPU: `Policy.step` beside a bare CUDA graph of the module, and eager PyTorch.

Every call ends with a synchronisation; rivals take turns in short bursts. TF32 is off for all of
them: an artifact computes float32 in float32. Recurrent policies feed their state back, the bare
graph too. `--bundles FOLDER` takes the bundles `mlp`, `lstm` and `cnn` from there (those that
another machine exported with `--export FOLDER`) where this one's torch cannot export them.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
import numpy as np
import torch
from step_latency import Lstm, mlp
from torch import Tensor, nn

import roadworthy as rw
from roadworthy.runtime.latency import interleaved

BATCHES = {"mlp": (1, 256, 4096, 65536), "lstm": (1, 256, 4096, 65536), "cnn": (1, 256)}


class NatureCnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
            nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(),
            nn.Linear(512, 6),
        )  # fmt: skip

    def forward(self, obs: Tensor) -> Tensor:
        logits: Tensor = self.net(obs)
        return logits


def sources() -> dict[str, rw.Source]:
    torch.manual_seed(0)
    zeros, wide = torch.zeros(1, 1, 256), torch.zeros(1, 48)
    return {
        "mlp": rw.Source(mlp([48, 512, 256, 128, 12], nn.ELU), example={"obs": wide}),
        "lstm": rw.Source(Lstm(), example={"obs": wide}, memory={"h": zeros, "c": zeros}),
        "cnn": rw.Source(NatureCnn(), example={"obs": torch.zeros(1, 4, 84, 84)}),
    }


def synchronised(call: Callable[[], object]) -> Callable[[], object]:
    def step() -> object:
        found = call()
        torch.cuda.synchronize()
        return found

    return step


def bare_graph(module: nn.Module, obs: Tensor, state: list[Tensor]) -> Callable[[], object]:
    """The module as a CUDA graph by hand: fixed buffers, the state fed back inside."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), torch.no_grad():
        for _ in range(3):
            module(obs, *state)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        results = module(obs, *state)
        for buffer, result in zip(state, results[1:] if state else (), strict=True):
            buffer.copy_(result)

    def replay(kept: object = (obs, state, results)) -> None:
        graph.replay()

    return replay


def eager(module: nn.Module, obs: Tensor, state: list[Tensor]) -> Callable[[], object]:
    def call() -> object:
        with torch.no_grad():
            result = module(obs, *state)
            if state:
                result, *state[:] = result
            return result

    return call


def measure(source: rw.Source, folder: Path, batch: int, rounds: int) -> dict[str, Any]:
    module = source.module.cuda().eval()
    shape = (batch, *next(iter(source.tensors.values())).shape[1:])
    obs = torch.randn(shape, device="cuda")

    def state() -> list[Tensor]:
        return [each.repeat(1, batch, 1).cuda() for each in source.memory.values()]

    def loaded() -> rw.Policy:
        return rw.load(folder, device="cuda", trust=True)

    by_tensor, by_buffer, by_array = loaded(), loaded(), loaded()
    buffers = by_buffer.buffers(batch)
    buffers["obs"].copy_(obs)
    tensor, array = {"obs": obs}, {"obs": obs.cpu().numpy()}
    expected = eager(module, obs, state())()
    worst = float((by_tensor.step(tensor)["actions"] - expected).abs().max())
    alone = torch.cuda.CUDAGraph()
    nothing = torch.zeros(1, device="cuda")
    with torch.cuda.graph(alone):
        nothing.add_(1)
    latencies = interleaved(
        {
            "one kernel as a CUDA graph": synchronised(alone.replay),
            "bare CUDA graph": synchronised(bare_graph(module, obs.clone(), state())),
            "Policy.step, own buffers": synchronised(lambda: by_buffer.step(buffers)),
            "Policy.step, CUDA tensor": synchronised(lambda: by_tensor.step(tensor)),
            "Policy.step, NumPy": lambda: by_array.step(array),
            "eager": synchronised(eager(module, obs, state())),
        },
        rounds=rounds,
    )
    floor, slow = latencies["bare CUDA graph"].p50_us, latencies["eager"].p50_us
    return {
        "latency": {name: each.to_json() for name, each in latencies.items()},
        "of_bare_graph": {name: each.p50_us / floor for name, each in latencies.items()},
        "times_faster_than_eager": {name: slow / each.p50_us for name, each in latencies.items()},
        "worst_difference_from_eager": worst,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--bundles", type=Path)
    parser.add_argument("--export", type=Path)
    parser.add_argument("--only", nargs="*", default=list(BATCHES))
    parser.add_argument("--out", type=Path, default=machine.RESULTS / "gpu.json")
    told = parser.parse_args()
    if told.export:
        for name, source in sources().items():
            rw.export(source, told.export / name, targets=["torch_export"])
        return
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    results: dict[str, Any] = {"gpu": torch.cuda.get_device_name(), "float32": "without TF32"}
    with tempfile.TemporaryDirectory() as scratch:
        for name in told.only:
            folder = (told.bundles or Path(scratch)) / name
            if not folder.exists():
                rw.export(sources()[name], folder, targets=["torch_export"])
            for batch in BATCHES[name]:
                found = measure(sources()[name], folder, batch, told.rounds)
                results.setdefault(name, {})[str(batch)] = found
                line = "  ".join(
                    f"{key}: {np.round(value['p50_us'], 1)}/{np.round(value['p99_us'], 1)}"
                    for key, value in found["latency"].items()
                )
                print(name, batch, line, f"off by {found['worst_difference_from_eager']:.1e}")
                machine.write(told.out, results)


if __name__ == "__main__":
    main()
