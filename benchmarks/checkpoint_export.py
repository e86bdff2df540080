"""How long a checkpoint takes on the command line, beside the bare module that is in it.

Both start in a new process and import PyTorch; the bare module is exported by the same `rw.export`.
Turn and turn about, the fastest of each counts: by the clock, and by processor time, which other
programs on the machine hardly change. Writes JSON.
"""

from __future__ import annotations

import argparse
import json
import resource
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


def seconds(command: list[str]) -> tuple[float, float]:
    """How long a command took: by the clock, and of processors."""
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - started, used


def measured(rounds: int) -> dict[str, object]:
    took: dict[str, list[tuple[float, float]]] = {"bare": [], "checkpoint": []}
    with tempfile.TemporaryDirectory() as folder:
        for place in range(rounds):
            bare, checkpoint = Path(folder, f"bare{place}"), Path(folder, f"checkpoint{place}")
            took["bare"].append(seconds([sys.executable, "-c", BARE, str(bare)]))
            took["checkpoint"].append(
                seconds([sys.executable, "-m", *EXPORT, str(MODEL), "-o", str(checkpoint)])
            )
    clock, processor = (
        {name: min(value[place] for value in values) for name, values in took.items()}
        for place in (0, 1)
    )
    return {
        "rounds": rounds,
        "seconds": clock,
        "ratio": clock["checkpoint"] / clock["bare"],
        "processor_seconds": processor,
        "processor_ratio": processor["checkpoint"] / processor["bare"],
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
