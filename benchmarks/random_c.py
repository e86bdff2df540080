"""Random policies as C beside PyTorch, seed after seed: the target c on ten thousand of them.

    nice -n 19 python benchmarks/random_c.py --start 100000 --count 10000

A policy is captured and written as policy.onnx by Roadworthy's own functions, without a
certificate; the C is written from that file, compiled (reproducible mode, -O2) and stepped with 1
and with 3 rows, from PyTorch's own memory and in a run of its own with a reset in the middle. The
judge is that of `random_policies.py`, tests/random_policies/comparing.py: the distance from PyTorch
in float64, in units of PyTorch's own. What passes without the judge's twins, which only widen the
allowance, is not asked again; all else gets the whole judgement of 200 steps and 72 twins, and
where C departs there, policy.onnx in onnxruntime is asked too.

Each seed is a line in the log; seeds that are there are not run again.
"""

from __future__ import annotations

import argparse
import collections
import functools
import gc
import json
import os
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import machine
import numpy as np
import torch

import roadworthy as rw
from roadworthy.api.export import captured
from roadworthy.api.options import ExportPlan
from roadworthy.capture.capture import captured_graph
from roadworthy.capture.program import Program
from roadworthy.rules.fixes.dtypes import is_low
from roadworthy.runtime import compiler
from roadworthy.runtime.load import load
from roadworthy.targets.c.lowering import Unsupported

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.random_policies import build, comparing, grammar, stepping
from tests.random_policies.failures import TooLong, at_most, is_fair
from tests.random_policies.policy import Policy
from tests.random_policies.stepping import Stepped

STEPS = {1: 12, 3: 40}
RESET_AT = 17
LONGEST_S = 60
# A run of its own that stays this near needs no twins: the floor of comparing.difference.
NEAR = 1e-6


def program(policy: Policy) -> Program:
    """The captured policy, from one example; the full capture where the module needs a repair."""
    source = build.source(policy)
    if is_low(source):
        return captured(source, ExportPlan())[0]
    signature, graph = captured_graph(source)
    return Program(signature=signature, graph=graph, recipe={}, source_name="random")


def is_near(policy: Policy, artifact: rw.Policy) -> bool:
    """Whether the artifact is within the allowance that PyTorch's own rounding gives, twins apart.

    False says nothing yet: `comparing.difference` decides.
    """
    with stepping.one_thread():
        return all(
            _steps_are_near(policy, artifact, rows) and _run_is_near(policy, artifact, rows)
            for rows in STEPS
        )


def _steps_are_near(policy: Policy, artifact: rw.Policy, rows: int) -> bool:
    """One step from each state that PyTorch comes through."""
    original, axes = Stepped.of(policy), build.batch_axes(policy)
    episode = stepping.draw(policy, STEPS[rows], rows, policy.seed)
    memory = original.start(rows)
    before, wanted = [], []
    got: list[comparing.Arrays] = []
    artifact.reset()
    for now in episode:
        before.append(memory)
        outputs, memory = original(now, memory)
        wanted.append(comparing.arrays(comparing.together(outputs, memory)))
        if memory:
            if not got:
                artifact.step(comparing.arrays(now))
            artifact.set_memory(comparing.arrays(before[-1]))
        found = artifact.step(comparing.arrays(now))
        kept = {f"memory {name}": value for name, value in artifact.memory.items()}
        got.append({**{n: np.array(v) for n, v in found.items()}, **kept})
    inputs = {name: torch.cat([now[name] for now in episode]) for name in episode[0]}
    states = {n: torch.cat([each[n] for each in before], dim=axes[n]) for n in memory}
    truth = comparing.exact_values(policy, inputs, states)
    for name in wanted[0]:
        axis = axes.get(name.removeprefix("memory "), 0) if name.startswith("memory ") else 0
        one, other = (
            np.concatenate([comparing.states_first(each[name], axis) for each in several])
            for several in (wanted, got)
        )
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        exact = one.astype(np.float64)
        if truth is not None:
            exact = comparing.states_first(truth[name], axis)
        if comparing.beyond(exact, one, other, []).any():
            return False
    return True


def _run_is_near(policy: Policy, artifact: rw.Policy, rows: int) -> bool:
    """A run with a memory of its own, and a reset of one row in the middle."""
    original, axes = Stepped.of(policy), build.batch_axes(policy)
    memory = original.start(rows)
    if not memory:
        return True
    artifact.reset()
    for step, now in enumerate(stepping.draw(policy, STEPS[rows], rows, policy.seed + 1)):
        if step == RESET_AT:
            chosen = np.arange(rows) == 1
            artifact.reset(chosen)
            memory = comparing.row_reset(memory, original.start(rows), axes, [1])
        outputs, memory = original(now, memory)
        got = artifact.step(comparing.arrays(now))
        for name, value in outputs.items():
            one, other = value.numpy().astype(np.float64), got[name].astype(np.float64)
            size = np.abs(one[np.isfinite(one)]).max(initial=0.0)
            with np.errstate(invalid="ignore"):
                same = (one == other) | (np.isnan(one) & np.isnan(other))
                if not (same | (np.abs(one - other) <= NEAR * size)).all():
                    return False
    return True


def outcome(seed: int, folder: Path) -> dict[str, Any]:
    """What became of a seed: `ok`, what ONNX or C does not have, a refusal, or how C departs."""
    policy, plan = grammar.generate(seed), ExportPlan()
    try:
        file = plan.backend("onnx").lower(program(policy), folder)[0]
    except rw.RoadworthyError as error:
        kind = "no ONNX" if all(map(is_fair, error.findings)) else "refused"
        return {"outcome": kind, "why": error.findings[0].code}
    try:
        artifact = load(file, engine="c", canary=False)
    except Unsupported as error:
        return {"outcome": "refused by name", "why": str(error)}
    if is_near(policy, artifact):
        return {"outcome": "ok", "judge": "without twins"}
    departs = comparing.difference(policy, artifact)
    if departs is None:
        return {"outcome": "ok", "judge": "with twins"}
    onnx = comparing.difference(policy, load(file, canary=False))
    # Where onnxruntime departs too the graph does, and an export is refused.
    kind = "C departs" if onnx is None else "ONNX departs too"
    return {"outcome": kind, "why": departs, "onnx": onnx, "operators": sorted(policy.operators)}


def examined(seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, at_most(LONGEST_S):
        try:
            return outcome(seed, Path(folder))
        except TooLong:
            return {"outcome": "too long", "why": f"more than {LONGEST_S} s"}
        except Exception:
            return {"outcome": "error", "why": traceback.format_exc()[-1500:]}


def read(log: Path) -> Iterator[dict[str, Any]]:
    if log.is_file():
        yield from map(json.loads, log.read_text().splitlines())


def summary(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """The counts of all outcomes, and every seed in which C alone departs or breaks."""
    counts = collections.Counter(line["outcome"] for line in lines)
    judges = collections.Counter(line["judge"] for line in lines if "judge" in line)
    refusals = collections.Counter(
        line["why"].partition("\n")[0].rpartition(": ")[2]
        for line in lines
        if line["outcome"] == "refused by name"
    )
    seeds = [line["seed"] for line in lines]
    return {
        "policies": len(seeds),
        "seeds": [min(seeds), max(seeds)],
        "steps": {str(rows): steps for rows, steps in STEPS.items()},
        "flags": compiler.FLAGS,
        "seconds_per_policy": round(float(np.mean([line["seconds"] for line in lines])), 2),
        "counts": dict(counts.most_common()),
        "judged": dict(judges),
        "refusals": dict(refusals.most_common()),
        "failures": [
            line
            for line in lines
            if line["outcome"] in ("refused", "C departs", "error", "too long")
        ],
        "departing_in_onnx_too": [
            line["seed"] for line in lines if line["outcome"] == "ONNX departs too"
        ],
    }


def remember_operators() -> None:
    """torch reads its list of all operators anew, twice for each policy: here once is enough."""
    from torch._export import utils
    from torch.export import exported_program

    once = functools.cache(utils._collect_all_valid_cia_ops)
    for module in (utils, exported_program):
        if hasattr(module, once.__name__):
            setattr(module, once.__name__, once)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--start", type=int, default=100_000)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--log", type=Path, default=Path("random_c.jsonl"))
    parser.add_argument("--out", type=Path, default=machine.RESULTS / "random_c.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    remember_operators()
    compiler.FLAGS = tuple("-O2" if word == "-O3" else word for word in compiler.FLAGS)  # type: ignore[assignment]
    end = arguments.start + arguments.count
    done = {line["seed"] for line in read(arguments.log)}
    begin = time.monotonic()
    # torch's tracing makes cycles by the thousand: they are looked for less often.
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)
    with tempfile.TemporaryDirectory() as cache, arguments.log.open("a") as log:
        os.environ["XDG_CACHE_HOME"] = cache
        for seed in range(arguments.start, end):
            if seed in done:
                continue
            if time.monotonic() - begin > arguments.seconds:
                break
            before = time.process_time()
            found = examined(seed)
            seconds = round(time.process_time() - before, 3)
            line = {"seed": seed, **found, "seconds": seconds}
            log.write(json.dumps(line) + "\n")
            log.flush()
            for library in Path(cache).rglob("*.so"):
                library.unlink()
            if found["outcome"] not in ("ok", "no ONNX", "refused by name"):
                print(line, flush=True)
    lines = [line for line in read(arguments.log) if arguments.start <= line["seed"] < end]
    machine.write(arguments.out, summary(lines))
    print(summary(lines)["counts"])


if __name__ == "__main__":
    main()
