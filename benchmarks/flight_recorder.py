"""What a flight recorder adds to a step.

The median step of a 48 → 128 → 12 policy and of a GRU of 64, plain and recorded in turns, their
ratio, the longest of the first steps, in which the rings are made, and how long the file takes.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import machine
import numpy as np
import torch

import roadworthy as rw
from roadworthy.runtime.latency import interleaved


class Recurrent(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = torch.nn.GRUCell(48, 64), torch.nn.Linear(64, 12)
        self.hidden: torch.Tensor | None = None

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        self.hidden = self.cell(obs, self.hidden)
        out: torch.Tensor = self.head(self.hidden)
        return out


def sources() -> dict[str, rw.Source]:
    layers = torch.nn.Linear(48, 128), torch.nn.ELU(), torch.nn.Linear(128, 12)
    obs = torch.zeros(1, 48)
    return {
        "mlp": rw.Source(torch.nn.Sequential(*layers), example={"obs": obs}),
        "gru": rw.Source(Recurrent(), example={"obs": obs}, memory={"hidden": "hidden"}),
    }


def measured(folder: Path, engine: str, rounds: int) -> dict[str, float]:
    plain, inside = (rw.load(folder, engine=engine) for _ in range(2))
    recorder = rw.FlightRecorder(inside, folder.parent / "flight.npz", replace=True)
    inputs = {"obs": np.zeros((1, 48), np.float32)}
    first = []
    for _ in range(5):
        start = perf_counter_ns()
        recorder.step(inputs)
        first.append((perf_counter_ns() - start) / 1000)
    found = interleaved(
        {"plain": lambda: plain.step(inputs), "recorded": lambda: recorder.step(inputs)},
        rounds=rounds,
    )
    start = perf_counter_ns()
    recorder.close()
    saved = (perf_counter_ns() - start) / 1e6
    one, other = found["plain"].p50_us, found["recorded"].p50_us
    return {
        "plain_us": one, "recorded_us": other, "ratio": other / one, "adds_us": other - one,
        "first_step_us": max(first), "save_ms": saved,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=machine.RESULTS / "flight_recorder.json")
    arguments = parser.parse_args()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as root:
        for name, source in sources().items():
            folder = Path(root) / name
            rw.export(source, folder)
            for engine in ("onnx", "c"):
                found = measured(folder, engine, arguments.rounds)
                results[f"{name}, {engine}"] = found
                print(f"{name}, {engine}: ", end="")
                print(", ".join(f"{key} {value:.2f}" for key, value in found.items()))
    print(f"written to {machine.write(arguments.out, results)}")


if __name__ == "__main__":
    main()
