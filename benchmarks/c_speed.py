"""The policy as C beside C written by hand, in a loop of C; and `Policy.step` beside onnxruntime's.

Bursts take turns, on one core. `hand.c` is what a person would write for this machine: vectors of
16 floats, fused multiply-add, sums in any order; it must give the same actions, to 1e-3.
The result goes to results/c_speed.json.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
import numpy as np
import torch
from step_latency import sources

import roadworthy as rw
from roadworthy.cfolder.files import interface, written
from roadworthy.runtime.latency import interleaved
from roadworthy.spec.bundle import POLICY
from roadworthy.spec.port import Array

HERE = Path(__file__).parent
FLAGS = ("-std=gnu99", "-O3", "-march=native", "-fno-trapping-math", "-fPIC", "-shared")
LOOP = """\
#include "policy.h"
#include <string.h>
static policy_state state;
static policy_inputs inputs;
static policy_outputs outputs;
void loop(const float *obs, float *out, int loops);
void forget(void);
void forget(void) { policy_init(&state); }
void loop(const float *obs, float *out, int loops)
{
    memcpy(&inputs, obs, sizeof inputs);
    for (int i = 0; i < loops; i++) {
        policy_step(&state, &inputs, &outputs);
    }
    memcpy(out, &outputs, sizeof outputs);
}
"""
Loop = Callable[[int], None]


def compiled(folder: Path, name: str, *words: str | Path) -> ctypes.CDLL:
    made = folder / f"{name}.so"
    subprocess.run(["gcc", *FLAGS, *words, "-o", made, "-lm"], cwd=folder, check=True)
    return ctypes.CDLL(str(made))


def pointer(array: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def panels(matrix: Array) -> Array:
    """(k, n) as hand.c reads it: columns padded to 16, in panels of 128, 64 and 16."""
    k, n = matrix.shape
    wide = np.zeros((k, -(-n // 16) * 16), np.float32)
    wide[:, :n] = matrix
    parts, start = [], 0
    for width in (128, 64, 16):
        while wide.shape[1] - start >= width:
            parts.append(wide[:, start : start + width].ravel())
            start += width
    return np.concatenate(parts)


def padded(vector: Array, size: int) -> Array:
    return np.pad(vector.astype(np.float32), (0, size - len(vector)))


def by_hand(library: ctypes.CDLL, source: rw.Source, obs: Array, out: Array) -> Loop:
    """The policy in hand.c, as a function of how often."""
    module = source.module
    linear = [each for each in module.modules() if isinstance(each, torch.nn.Linear)]
    weights = [panels(each.weight.detach().numpy().T) for each in linear]
    biases = [
        padded(each.bias.detach().numpy(), -(-each.out_features // 16) * 16) for each in linear
    ]
    cells = [each for each in module.modules() if isinstance(each, torch.nn.LSTM)]
    if cells:
        cell: Any = cells[0]
        both = torch.cat([cell.weight_ih_l0, cell.weight_hh_l0], 1).detach().numpy().T
        w = np.concatenate([panels(both), *weights])
        b = np.concatenate([(cell.bias_ih_l0 + cell.bias_hh_l0).detach().numpy(), *biases])
        held = (w, b)

        def lstm(loops: int, held: Any = held) -> None:
            library.lstm(pointer(w), pointer(b), 48, 256, loops, pointer(obs), pointer(out))

        return lstm
    w, b = np.concatenate(weights), np.concatenate(biases)
    sizes = np.array([linear[0].in_features, *(each.out_features for each in linear)], np.int32)
    scale, shift = np.ones(64, np.float32), np.zeros(64, np.float32)
    statistic: Any = source.normalizer
    if statistic is not None:
        scale[: sizes[0]] = 1 / np.sqrt(np.asarray(statistic.var) + statistic.eps)
        shift[: sizes[0]] = -np.asarray(statistic.mean)
    tanh = any(isinstance(each, torch.nn.Tanh) for each in module.modules())

    def mlp(loops: int, held: Any = (w, b, sizes, scale, shift)) -> None:
        library.mlp(
            pointer(w), pointer(b), pointer(sizes), len(linear), int(tanh), loops, pointer(obs),
            pointer(scale), pointer(shift), pointer(out),
        )  # fmt: skip

    return mlp


def loops(source: rw.Source, bundle: rw.Bundle, folder: Path, rounds: int) -> dict[str, float]:
    """Microseconds of a step in a loop of C: by hand, fast, reproducible."""
    for name, text in written(interface(bundle.files[POLICY], bundle.signature)).items():
        (folder / name).write_text(text)
    (folder / "loop.c").write_text(LOOP)
    width = int(bundle.signature.inputs[0].shape[1])
    obs = padded(np.random.default_rng(0).standard_normal(width), 64)
    hand = compiled(folder, "hand", HERE / "hand.c")
    libraries = {
        "hand": hand,
        "fast": compiled(folder, "fast", "-DPOLICY_FAST", "policy.c", "loop.c"),
        "reproducible": compiled(folder, "plain", "policy.c", "loop.c"),
    }
    outs = {name: np.zeros(64, np.float32) for name in libraries}
    calls: dict[str, Loop] = {"hand": by_hand(hand, source, obs, outs["hand"])}
    for name in ("fast", "reproducible"):
        run, out = libraries[name].loop, outs[name]
        calls[name] = lambda n, run=run, out=out: run(pointer(obs), pointer(out), n)  # type: ignore[misc]
    for name, library in libraries.items():
        library.forget()
        calls[name](3)
    count = int(bundle.signature.outputs[0].shape[1])
    for out in outs.values():
        assert np.allclose(out[:count], outs["reproducible"][:count], atol=1e-3), outs
    took: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            begin = time.perf_counter()
            call(100)
            took[name].append((time.perf_counter() - begin) * 1e4)
    return {name: statistics.median(each) for name, each in took.items()}


def steps(folder: Path, rounds: int) -> dict[str, float]:
    """Microseconds of `Policy.step`, by engine."""
    policies = {engine: rw.load(folder, engine=engine) for engine in ("onnx", "c")}
    port = policies["onnx"].signature.inputs[0]
    obs = np.random.default_rng(0).standard_normal((1, int(port.shape[1]))).astype(np.float32)
    calls = {
        name: lambda policy=policy: policy.step({port.name: obs})
        for name, policy in policies.items()
    }
    return {name: each.p50_us for name, each in interleaved(calls, rounds=rounds).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--out", type=Path, default=machine.RESULTS / "c_speed.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for number, (name, source) in enumerate(sources().items()):
            folder = Path(scratch) / str(number)
            bundle = rw.export(source, folder)
            work = Path(scratch) / f"c{number}"
            work.mkdir()
            loop, step = (
                loops(source, bundle, work, arguments.rounds),
                steps(folder, arguments.rounds),
            )
            results[name] = {
                "loop_us": loop,
                "step_us": step,
                "fast_over_hand": loop["fast"] / loop["hand"],
                "reproducible_over_hand": loop["reproducible"] / loop["hand"],
                "onnx_over_c": step["onnx"] / step["c"],
            }
            row = {k: round(v, 2) for k, v in {**loop, **step}.items()}
            print(name, row, {k: round(results[name][k], 2) for k in list(results[name])[2:]})
    print(f"written to {machine.write(arguments.out, {'policies': results})}")


if __name__ == "__main__":
    main()
