"""How long an export takes: the first and the second of a process, beside bare torch.

Bare torch is `torch.export.export` and `torch.onnx.export` of the same module: nothing is studied,
recorded or compared. "capture and ONNX" is our part of the same. The first is timed in processes of
its own, imports left out; for the second all three take turns in one process. Medians count, and
the ratios are of processor time on one thread: they hold on a machine that is shared, too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import machine
import torch
from torch import Tensor, nn

import roadworthy as rw
from roadworthy.capture.capture import capture
from roadworthy.errors.quiet import quiet
from roadworthy.targets.onnx.backend import OnnxBackend

ROWS = 3
BARE = "bare torch"


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(48, 256)
        self.head = nn.Sequential(nn.Linear(256, 128), nn.ELU(), nn.Linear(128, 12))

    def forward(self, obs: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        features, (h, c) = self.rnn(obs.unsqueeze(0), (h, c))
        return self.head(features.squeeze(0)), h, c


def mlp() -> rw.Source:
    layers = [nn.Linear(48, 512), nn.ELU(), nn.Linear(512, 256), nn.ELU(), nn.Linear(256, 128)]
    net = nn.Sequential(*layers, nn.ELU(), nn.Linear(128, 12))
    return rw.Source(net, example={"obs": torch.zeros(1, 48)})


def lstm() -> rw.Source:
    zeros = torch.zeros(1, 1, 256)
    return rw.Source(Lstm(), example={"obs": torch.zeros(1, 48)}, memory={"h": zeros, "c": zeros})


def nature_cnn() -> rw.Source:
    convolutions = [
        nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
        nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten(),
    ]  # fmt: skip
    net = nn.Sequential(*convolutions, nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 6))
    return rw.Source(net, example={"obs": torch.zeros(1, 4, 84, 84)})


class Block(nn.Module):
    """Two convolutions; the condition is scale and bias between them."""

    def __init__(self, inputs: int, outputs: int, condition: int) -> None:
        super().__init__()
        self.first, self.second = _normed(inputs, outputs), _normed(outputs, outputs)
        self.condition = nn.Sequential(nn.Mish(), nn.Linear(condition, 2 * outputs))
        self.skip = nn.Conv1d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        scale, bias = self.condition(condition).unsqueeze(-1).chunk(2, dim=1)
        out: Tensor = self.second(scale * self.first(x) + bias) + self.skip(x)
        return out


def _normed(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv1d(inputs, outputs, 5, padding=2), nn.GroupNorm(8, outputs), nn.Mish()
    )


class UNet(nn.Module):
    """A diffusion policy: a conditional U-Net over 16 actions, several steps of DDIM."""

    WIDTHS, CONDITION, STEPS = (64, 128, 256), 32, 4

    def __init__(self) -> None:
        super().__init__()
        first, *_, last = self.WIDTHS
        pairs = list(zip((2, *self.WIDTHS), self.WIDTHS, strict=False))
        size = self.CONDITION + 20
        self.time = nn.Sequential(nn.Linear(1, 128), nn.Mish(), nn.Linear(128, self.CONDITION))
        self.down = nn.ModuleList(Block(i, o, size) for i, o in pairs)
        self.shrink = nn.ModuleList(nn.Conv1d(o, o, 3, 2, 1) for _, o in pairs[:-1])
        self.middle = Block(last, last, size)
        self.up = nn.ModuleList(Block(2 * o, i, size) for i, o in reversed(pairs[1:]))
        self.grow = nn.ModuleList(nn.ConvTranspose1d(i, i, 4, 2, 1) for i, _ in reversed(pairs[1:]))
        self.final = nn.Conv1d(first, 2, 1)

    def noise_in(self, x: Tensor, share: float, obs: Tensor) -> Tensor:
        condition = torch.cat([self.time(torch.full((obs.shape[0], 1), share)), obs.flatten(1)], -1)
        x, kept = x.transpose(1, 2), []
        for level, block in enumerate(self.down):
            x = block(x, condition)
            kept.append(x)
            x = self.shrink[level](x) if level < len(self.shrink) else x
        x = self.middle(x, condition)
        for block, grow in zip(self.up, self.grow, strict=True):
            x = grow(block(torch.cat([x, kept.pop()], dim=1), condition))
        out: Tensor = self.final(x)
        return out.transpose(1, 2)

    def forward(self, obs: Tensor, noise: Tensor) -> Tensor:
        x = noise
        for step in range(self.STEPS):
            now, later = (step + 1) / (self.STEPS + 1), (step + 2) / (self.STEPS + 1)
            found = self.noise_in(x, 1 - now, obs)
            start = ((x - (1 - now) ** 0.5 * found) / now**0.5).clamp(-1, 1)
            x = later**0.5 * start + (1 - later) ** 0.5 * found
        return x[:, 1:9]


def diffusion_unet() -> rw.Source:
    example = {"obs": torch.zeros(1, 2, 10), "noise": torch.zeros(1, 16, 2)}
    return rw.Source(UNet().eval(), example=example)


class CnnGru(nn.Module):
    """A depth image beside what the robot feels, and a GRU behind both."""

    def __init__(self) -> None:
        super().__init__()
        self.see = nn.Sequential(
            nn.Conv2d(1, 32, 5), nn.MaxPool2d(2), nn.ELU(), nn.Conv2d(32, 64, 3), nn.ELU(),
            nn.Flatten(), nn.Linear(64 * 25 * 39, 128), nn.ELU(), nn.Linear(128, 32),
        )  # fmt: skip
        self.rnn = nn.GRU(32 + 48, 256)
        self.head = nn.Sequential(nn.Linear(256, 128), nn.ELU(), nn.Linear(128, 12))

    def forward(self, depth: Tensor, obs: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        features, h = self.rnn(torch.cat([self.see(depth), obs], -1).unsqueeze(0), h)
        return self.head(features.squeeze(0)), h


def cnn_gru() -> rw.Source:
    example = {"depth": torch.zeros(1, 1, 58, 87), "obs": torch.zeros(1, 48)}
    return rw.Source(CnnGru(), example=example, memory={"h": torch.zeros(1, 1, 256)})


POLICIES: dict[str, Callable[[], rw.Source]] = {
    "MLP 48-512-256-128-12": mlp,
    "LSTM 256": lstm,
    "Nature CNN": nature_cnn,
    "CNN-GRU": cnn_gru,
    "diffusion U-Net": diffusion_unet,
}


def exports(source: rw.Source, folder: Path) -> dict[str, Callable[[], object]]:
    """What is timed, by name; each writes its file anew."""
    module = source.module.eval()
    batch = torch.export.Dim("batch", min=1)
    # The batch is the first axis of an observation, and the second of an LSTM's memory.
    observations = [value.expand(ROWS, *value.shape[1:]) for value in source.tensors.values()]
    memory = [value.expand(1, ROWS, *value.shape[2:]) for value in source.memory.values()]
    shapes = (*({0: batch} for _ in observations), *({1: batch} for _ in memory))

    def bare() -> None:
        with quiet():
            arguments = (*observations, *memory)
            graph = torch.export.export(module, arguments, dynamic_shapes=shapes, strict=False)
            torch.onnx.export(
                graph, (), folder / "bare.onnx", dynamo=True, opset_version=20, verbose=False
            )

    return {
        "rw.export": lambda: rw.export(source, folder / "bundle"),
        "capture and ONNX": lambda: OnnxBackend().lower(capture(source), folder),
        BARE: bare,
    }


@dataclass(frozen=True, slots=True)
class Taken:
    """Seconds on the clock, and of the processor."""

    wall_s: float
    cpu_s: float


def taken(call: Callable[[], object]) -> Taken:
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return Taken(time.perf_counter() - wall, time.process_time() - cpu)


def first(policy: str, name: str) -> Taken:
    """The first export of this process."""
    with tempfile.TemporaryDirectory() as scratch:
        return taken(exports(POLICIES[policy](), Path(scratch))[name])


def first_elsewhere(policy: str, name: str) -> Taken:
    """The first export of a new process."""
    command = [sys.executable, __file__, "--first", policy, name]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return Taken(**json.loads(result.stdout))


def measured(policy: str, rounds: int) -> dict[str, Any]:
    """First and later exports of one policy, in seconds, and how they stand to bare torch."""
    with tempfile.TemporaryDirectory() as scratch:
        calls = exports(POLICIES[policy](), Path(scratch))
        firsts: dict[str, list[Taken]] = {name: [] for name in calls}
        later: dict[str, list[Taken]] = {name: [] for name in calls}
        for call in calls.values():
            call()
        for _ in range(rounds):
            for name, call in calls.items():
                firsts[name].append(first_elsewhere(policy, name))
                later[name].append(taken(call))
    return {"first": _beside_bare(firsts), "second": _beside_bare(later)}


def _beside_bare(rounds: dict[str, list[Taken]]) -> dict[str, dict[str, float]]:
    results = {}
    for name, each in rounds.items():
        pairs = zip(each, rounds[BARE], strict=True)
        figures = {
            "wall_s": statistics.median(one.wall_s for one in each),
            "cpu_s": statistics.median(one.cpu_s for one in each),
            "over_bare": statistics.median(ours.cpu_s / bare.cpu_s for ours, bare in pairs),
        }
        results[name] = {figure: round(value, 3) for figure, value in figures.items()}
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=machine.RESULTS / "export_time.json")
    parser.add_argument("--policies", nargs="+", choices=POLICIES, default=list(POLICIES))
    parser.add_argument("--first", nargs=2, metavar=("POLICY", "NAME"), help="of one process")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if arguments.first:
        print(json.dumps(asdict(first(*arguments.first))))
        return
    results = {policy: measured(policy, arguments.rounds) for policy in arguments.policies}
    for policy, measurements in results.items():
        for which, figures in measurements.items():
            for name, each in figures.items():
                print(f"{policy:<24}{which:<8}{name:<18}", end="")
                print(f"{each['wall_s']:6.2f} s, processor {each['cpu_s']:.2f} s, ", end="")
                print(f"{each['over_bare']:.2f}× bare torch")
    print(f"written to {machine.write(arguments.out, {'policies': results})}")


if __name__ == "__main__":
    main()
