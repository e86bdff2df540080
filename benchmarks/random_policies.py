"""Random policies, seed after seed: exported, verified, and compared by a loop of its own.

    python benchmarks/random_policies.py --seconds 600 --start 1000

Each failure is shrunk to a smallest policy that fails the same way, and printed as Python.
"""

from __future__ import annotations

import argparse
import collections
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import machine
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.random_policies import build, grammar
from tests.random_policies.failures import Asked, Failure, examine
from tests.random_policies.shrink import shrunk

# One policy in so many is exported twice, and one has a weight moved.
TWICE_EVERY = 5
DAMAGE_EVERY = 4


def reported(seed: int, failure: Failure, asked: Asked, tries: int) -> dict[str, Any]:
    """The failure of a seed with its smallest policy, printed and as data."""
    whole = grammar.generate(seed)
    policy = shrunk(whole, lambda each: failure.like(examine(each, asked)), tries)
    last = None if policy == whole else examine(policy, asked)
    print(f"\nseed {seed}: {failure.kind} {failure.key}\n{build.code(policy)}")
    print(replace(policy, nodes=()), (last or failure).text[-3000:], sep="\n", flush=True)
    return {
        "seed": seed,
        "kind": failure.kind,
        "key": failure.key,
        "operators": sorted(policy.operators),
        "code": build.code(policy),
        "text": (last or failure).text[-1500:],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--targets", default="onnx")
    parser.add_argument("--shrink", type=int, default=60, help="policies tried to shrink a failure")
    parser.add_argument("--out", type=Path, default=machine.RESULTS / "random_policies.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    targets = tuple(arguments.targets.split(","))
    counts: collections.Counter[str] = collections.Counter()
    operators: collections.Counter[str] = collections.Counter()
    failures: list[dict[str, Any]] = []
    begin, seed = time.monotonic(), arguments.start
    while time.monotonic() - begin < arguments.seconds:
        policy = grammar.generate(seed)
        asked = Asked(targets, seed % TWICE_EVERY == 0, seed % DAMAGE_EVERY == 0)
        failure = examine(policy, asked)
        counts["policies"] += 1
        counts["exported twice"] += asked.twice
        counts["damaged"] += asked.damage
        counts["remember"] += any(node.style for node in policy.nodes)
        operators.update(policy.operators)
        if failure is not None:
            counts[failure.kind] += 1
        if failure is not None and failure.kind != "fair":
            failures.append(reported(seed, failure, asked, arguments.shrink))
        seed += 1
        results = {
            "seeds": [arguments.start, seed - 1],
            "targets": targets,
            "seconds_per_policy": round((time.monotonic() - begin) / counts["policies"], 2),
            "counts": dict(counts),
            "operators": len(operators),
            "failures": failures,
        }
        machine.write(arguments.out, results)
    print(results["counts"])


if __name__ == "__main__":
    main()
