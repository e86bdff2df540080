"""The policy as C beside C written by hand, in a loop of C; the time to write and compile it.

Bursts take turns, on one core. `hand.c` is what a person would write for this machine: vectors of
16 floats, fused multiply-add, sums in any order; it must give the same actions, to 1e-3. Of mjlab's
Go1 there is none, and the sandbox alone is measured.
The result goes to results/c_speed.json.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import machine
import numpy as np
import onnxruntime
import torch
from c_engines import ENVIRONMENTS, GO1, exported, inputs, sources
from step_latency import plain_session

import roadworthy as rw
from roadworthy.spec.bundle import POLICY
from roadworthy.spec.port import BATCH, Array
from roadworthy.targets.c.folder.files import written
from roadworthy.targets.c.folder.interface import interface

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
# Calls into wasmtime's sandbox, each with fresh fuel.
BOX = """\
#include <stddef.h>
#include <stdint.h>
typedef void *(*refuel_t)(void *, uint64_t);
typedef void *(*call_t)(void *, void *, void *, size_t, void **);
int box(refuel_t refuel, call_t call, void *context, void *function, void *values, void **trap,
    uint64_t fuel, int loops)
{
    for (int i = 0; i < loops; i++) {
        if (refuel(context, fuel) || call(context, function, values, 2, trap) || *trap) {
            return 1;
        }
    }
    return 0;
}
"""
OBS = {"obs": torch.zeros(1, 48)}
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


def held(module: torch.nn.Module) -> tuple[list[Array], list[Array], Array]:
    """Weights and biases of the linear layers as hand.c reads them, and their sizes."""
    linear = [each for each in module.modules() if isinstance(each, torch.nn.Linear)]
    weights = [panels(each.weight.detach().numpy().T) for each in linear]
    biases = [
        padded(each.bias.detach().numpy(), -(-each.out_features // 16) * 16) for each in linear
    ]
    sizes = np.array([linear[0].in_features, *(each.out_features for each in linear)], np.int32)
    return weights, biases, sizes


def mlp(library: ctypes.CDLL, source: rw.Source, obs: Array, out: Array) -> Loop:
    weights, biases, sizes = held(source.module)
    w, b = np.concatenate(weights), np.concatenate(biases)
    scale, shift = np.ones(64, np.float32), np.zeros(64, np.float32)
    statistic: Any = source.normalizer
    if statistic is not None:
        scale[: sizes[0]] = 1 / np.sqrt(np.asarray(statistic.var) + statistic.eps)
        shift[: sizes[0]] = -np.asarray(statistic.mean)
    tanh = any(isinstance(each, torch.nn.Tanh) for each in source.module.modules())

    def loop(loops: int) -> None:
        library.mlp(
            pointer(w), pointer(b), pointer(sizes), len(weights), int(tanh), loops, pointer(obs),
            pointer(scale), pointer(shift), pointer(out),
        )  # fmt: skip

    return loop


def lstm(library: ctypes.CDLL, source: rw.Source, obs: Array, out: Array) -> Loop:
    weights, biases, _ = held(source.module)
    cell: Any = next(each for each in source.module.modules() if isinstance(each, torch.nn.LSTM))
    both = torch.cat([cell.weight_ih_l0, cell.weight_hh_l0], 1).detach().numpy().T
    w = np.concatenate([panels(both), *weights])
    b = np.concatenate([(cell.bias_ih_l0 + cell.bias_hh_l0).detach().numpy(), *biases])
    return lambda loops: library.lstm(
        pointer(w), pointer(b), 48, 256, loops, pointer(obs), pointer(out)
    )


def nature(library: ctypes.CDLL, source: rw.Source, obs: Array, out: Array) -> Loop:
    weights, biases, _ = held(source.module)
    filters = [each for each in source.module.modules() if isinstance(each, torch.nn.Conv2d)]
    wide: Any = next(each for each in source.module.modules() if isinstance(each, torch.nn.Linear))
    # Channels last, as the convolution before it leaves them.
    turned = wide.weight.detach().numpy().reshape(512, 64, 7, 7).transpose(2, 3, 1, 0)
    parts = [each.weight.detach().numpy().transpose(2, 3, 1, 0).ravel() for each in filters]
    w = np.concatenate([*parts, panels(turned.reshape(3136, 512)), weights[1]])
    b = np.concatenate(
        [*(each.bias.detach().numpy() for each in filters if each.bias is not None), *biases]
    )
    return lambda loops: library.nature(pointer(w), pointer(b), loops, pointer(obs), pointer(out))


def transformer(library: ctypes.CDLL, source: rw.Source, obs: Array, out: Array) -> Loop:
    module: Any = source.module
    w, b = [], []
    for layer in module.encoder.layers:
        own = layer.self_attn
        pairs = [(own.in_proj_weight, own.in_proj_bias)]
        pairs += [(e.weight, e.bias) for e in (own.out_proj, layer.linear1, layer.linear2)]
        for matrix, bias in pairs:
            turned = matrix.detach().numpy().T
            w += [turned[:, at : at + 64].ravel() for at in range(0, turned.shape[1], 64)]
            b.append(bias.detach().numpy())
        for norm in (layer.norm1, layer.norm2):
            b += [norm.weight.detach().numpy(), norm.bias.detach().numpy()]
    w.append(panels(module.head.weight.detach().numpy().T))
    b.append(padded(module.head.bias.detach().numpy(), 16))
    weights, biases = np.concatenate(w), np.concatenate(b)
    return lambda loops: library.transformer(
        pointer(weights), pointer(biases), loops, pointer(obs), pointer(out)
    )


def environment(
    library: ctypes.CDLL, source: rw.Source, obs: Array, out: Array, name: str = "environment"
) -> Loop:
    weights, biases, sizes = held(source.module)
    w, b = np.concatenate(weights), np.concatenate(biases)
    run = getattr(library, name)
    return lambda loops: run(
        pointer(w), pointer(b), pointer(sizes), len(weights), loops, pointer(obs), pointer(out)
    )


BY_HAND: dict[str, Callable[[ctypes.CDLL, rw.Source, Array, Array], Loop]] = {
    "MLP 48-512-256-128-12 with normaliser": mlp,
    "MLP 4-64-64-2": mlp,
    "LSTM 256": lstm,
    "Nature CNN": nature,
    "transformer 8x128": transformer,
    "environment of sixty operators around the MLP": partial(environment, name="walker"),
    "environment around the MLP": environment,
    "environment around a small MLP": environment,
}


def loops(
    title: str, source: rw.Source, bundle: rw.Bundle, folder: Path, rounds: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Microseconds of a step in a loop of C: by hand, fast, reproducible; seconds to get there."""
    begin = time.thread_time()
    texts = written(interface(bundle.files[POLICY], bundle.signature))
    prepared = {"generation_s": time.thread_time() - begin}
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "loop.c").write_text(LOOP)
    signature = bundle.signature
    width = sum(int(np.prod(port.sizes({BATCH: 1}))) for port in signature.inputs)
    obs = padded(np.random.default_rng(0).standard_normal(width), -(-width // 64) * 64)
    hand = compiled(folder, "hand", HERE / "hand.c")
    before = _children()
    plain = compiled(folder, "plain", "policy.c", "loop.c")
    prepared["compile_s"] = _children() - before
    fast = compiled(folder, "fast", "-DPOLICY_FAST", "policy.c", "loop.c")
    libraries = {"hand": hand, "fast": fast, "reproducible": plain}
    count = sum(int(np.prod(port.sizes({BATCH: 1}))) for port in signature.outputs)
    outs = {name: np.zeros(count + 64, np.float32) for name in libraries}
    calls: dict[str, Loop] = {"hand": BY_HAND[title](hand, source, obs, outs["hand"])}
    for name in ("fast", "reproducible"):
        run, out = libraries[name].loop, outs[name]
        calls[name] = lambda n, run=run, out=out: run(pointer(obs), pointer(out), n)  # type: ignore[misc]
    for name, library in libraries.items():
        library.forget()
        calls[name](5)
    for out in outs.values():
        assert np.allclose(out[:count], outs["reproducible"][:count], atol=1e-3), outs
    return taken(calls, rounds), prepared


def boxed(folder: Path, work: Path, tick: int) -> Loop:
    """The policy as WebAssembly, called from C."""
    policy = rw.load(folder, engine="c", device="wasm")
    policy.step(inputs(policy.signature))
    run = policy._frame._runs[0]  # type: ignore[union-attr]
    policy._buffers.ticks[...] = tick
    run()  # what it reads is copied into its memory
    (work / "box.c").write_text(BOX)
    words = [ctypes.c_uint64(each) for each in run.box[:7]]
    box = compiled(work, f"box{tick}", "box.c").box

    def loop(loops: int, kept: rw.Policy = policy) -> None:
        assert box(*words, loops) == 0

    return loop


def io_binding(model: bytes, signature: rw.Signature, tick: int) -> Loop:
    """onnxruntime over buffers that were tied once."""
    session = plain_session(model)
    binding = session.io_binding()
    feed = inputs(signature) | {each.input: each.fresh(1) for each in signature.memory}
    clock = {signature.clock: np.array(tick, np.int32)} if signature.clock else {}
    names = [each.name for each in session.get_outputs()]
    results = dict(zip(names, session.run(None, feed | clock), strict=True))
    make = onnxruntime.OrtValue.ortvalue_from_numpy
    ins, outs = (
        {name: make(value) for name, value in side.items()} for side in (feed | clock, results)
    )
    for name, value in ins.items():
        binding.bind_ortvalue_input(name, value)
    for name, value in outs.items():
        binding.bind_ortvalue_output(name, value)
    run, held = session._sess.run_with_iobinding, binding._iobinding

    def loop(loops: int, kept: object = (session, binding, ins, outs)) -> None:
        for _ in range(loops):  # the values lie in NumPy's memory, which nothing else holds
            run(held, None)

    return loop


def has_sandbox() -> bool:
    return all(importlib.util.find_spec(name) for name in ("wasmtime", "ziglang"))


def sandbox(bundle: rw.Bundle, folder: Path, work: Path, rounds: int) -> dict[str, float]:
    """Microseconds of a step: the WebAssembly called from C, and onnxruntime's IO binding.

    Of a policy of two rates the mean of a period: one tick that decides, and those between.
    """
    whole = bundle.signature.decimation if bundle.signature.clock else 1
    found: dict[str, float] = {"wasm": 0.0, "io_binding": 0.0}
    for tick, share in ((0, 1 / whole), (1, 1 - 1 / whole))[: 1 if whole == 1 else 2]:
        calls = {
            "wasm": boxed(folder, work, tick),
            "io_binding": io_binding(bundle.files[POLICY], bundle.signature, tick),
        }
        for name, microseconds in taken(calls, rounds).items():
            found[name] += share * microseconds
    return found


def taken(calls: Mapping[str, Loop], rounds: int) -> dict[str, float]:
    """Microseconds of a step, in bursts of a millisecond that take turns.

    Processor time of this thread: others on the machine do not count.
    """
    took: dict[str, list[float]] = {name: [] for name in calls}
    many = {}
    for name, call in calls.items():
        call(4)
        begin = time.thread_time()
        call(4)
        many[name] = max(4, int(1e-3 / (time.thread_time() - begin)) * 4)
    for _ in range(rounds):
        for name, call in calls.items():
            call(4)  # a rival has just used the caches
            begin = time.thread_time()
            call(many[name])
            took[name].append((time.thread_time() - begin) / many[name] * 1e6)
    return {name: statistics.median(each) for name, each in took.items()}


def _children() -> float:
    """Seconds of processor time of the programs that were started and have ended."""
    times = os.times()
    return times.children_user + times.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--out", type=Path, default=machine.RESULTS / "c_speed.json")
    parser.add_argument("--policies", nargs="*", choices=(*BY_HAND, GO1), help="only these")
    parser.add_argument("--folder", type=Path, help="where bundles are kept for the next time")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        given = sources()
        places = exported(
            arguments.folder or Path(scratch) / "bundles", arguments.policies or [*BY_HAND, GO1]
        )
        for title, folder in places.items():
            work = Path(scratch) / folder.name
            work.mkdir()
            bundle = rw.Bundle.open(folder)
            loop: dict[str, float] = {}
            prepared: dict[str, float] = {}
            if title in BY_HAND:
                actor = ENVIRONMENTS[title][1]() if title in ENVIRONMENTS else None
                source = rw.Source(actor, example=OBS) if actor else given[title]
                loop, prepared = loops(title, source, bundle, work, arguments.rounds)
            box = sandbox(bundle, folder, work, arguments.rounds) if has_sandbox() else {}
            ratios = {f"{each}_over_hand": loop[each] / loop["hand"] for each in loop}
            ratios.pop("hand_over_hand", None)
            if box:
                ratios["wasm_over_io_binding"] = box["wasm"] / box["io_binding"]
            results[title] = {"loop_us": loop | box, **ratios, **prepared}
            row = {**loop, **box, **ratios, **prepared}
            print(title, {k: round(v, 2) for k, v in row.items()}, flush=True)
    print(f"written to {machine.write(arguments.out, {'policies': results})}")


if __name__ == "__main__":
    main()
