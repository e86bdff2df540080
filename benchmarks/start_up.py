"""From a cold interpreter to the first action: Roadworthy, a bare onnxruntime script, torch.

Every figure is a new process; the processes take turns, and the median counts.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import machine
import torch
from torch import nn

import roadworthy as rw

BUNDLE = """
import numpy as np, roadworthy
print(roadworthy.load({folder!r}).act(np.zeros((1, 48), np.float32)))
"""
BARE = """
import numpy as np, onnxruntime
path = {folder!r} + "/policy.onnx"
session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
print(session.run(None, {{"obs": np.zeros((1, 48), np.float32)}})[0])
"""
MISTAKE = """
from roadworthy.cli.app import run
try:
    run(["inspect", "nobody"])
except SystemExit as leaving:
    assert leaving.code == 2
"""
IMPORTS = {"import torch": "import torch", "import roadworthy": "import roadworthy"}


def seconds(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, default=machine.RESULTS / "start_up.json")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    actor = nn.Sequential(nn.Linear(48, 256), nn.ELU(), nn.Linear(256, 12))
    with tempfile.TemporaryDirectory() as scratch:
        folder = str(Path(scratch) / "policy")
        rw.export(actor, folder, example={"obs": torch.zeros(1, 48)})
        programs = {
            "roadworthy, load to first action": BUNDLE.format(folder=folder),
            "bare onnxruntime script": BARE.format(folder=folder),
            "roadworthy inspect of nothing": MISTAKE,
            **IMPORTS,
        }
        taken: dict[str, list[float]] = {name: [] for name in programs}
        for _ in range(arguments.rounds):
            for name, code in programs.items():
                taken[name].append(seconds(code))
    medians = {name: statistics.median(times) for name, times in taken.items()}
    ours = medians["roadworthy, load to first action"]
    results: dict[str, Any] = {
        "median_s": medians,
        "over_bare": ours / medians["bare onnxruntime script"],
        "over_torch_import": ours / medians["import torch"],
    }
    for name, value in medians.items():
        print(f"{name:<36}{value * 1000:8.0f} ms")
    print(f"over the bare script {results['over_bare']:.2f}×, ", end="")
    print(f"over importing torch {results['over_torch_import']:.2f}×")
    print(f"written to {machine.write(arguments.out, results)}")


if __name__ == "__main__":
    main()
