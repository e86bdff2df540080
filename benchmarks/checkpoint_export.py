"""How long a checkpoint takes on the command line, beside the bare module that is in it.

Both start in a new process and import PyTorch; the bare module is exported by the same `rw.export`.
Turn and turn about, the fastest of each counts. Writes JSON.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import machine

import roadworthy.demo

MODEL = Path(roadworthy.demo.__file__).parent / "ppo_cartpole.zip"
EXPORT = ("roadworthy", "export", "--assume", "vecnormalize=none")
BARE = """
import sys, torch
from torch import nn
import roadworthy as rw
actor = nn.Sequential(
    nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 2)
)
rw.export(actor, sys.argv[1], example={"obs": torch.zeros(1, 4)}, action=rw.Argmax())
"""


def seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def measured(rounds: int) -> dict[str, object]:
    took: dict[str, list[float]] = {"bare": [], "checkpoint": []}
    with tempfile.TemporaryDirectory() as folder:
        for place in range(rounds):
            bare, checkpoint = Path(folder, f"bare{place}"), Path(folder, f"checkpoint{place}")
            took["bare"].append(seconds([sys.executable, "-c", BARE, str(bare)]))
            took["checkpoint"].append(
                seconds([sys.executable, "-m", *EXPORT, str(MODEL), "-o", str(checkpoint)])
            )
    best = {name: min(values) for name, values in took.items()}
    return {
        "seconds": best,
        "ratio": best["checkpoint"] / best["bare"],
        "goal": 1.5,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=machine.RESULTS / "checkpoint_export.json")
    arguments = parser.parse_args()
    results = measured(arguments.rounds)
    print(json.dumps(results, indent=2))
    print(machine.write(arguments.out, results))
