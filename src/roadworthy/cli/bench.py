"""`roadworthy bench`."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import numpy as np
import typer

from roadworthy.cli.console import out, print_json, table, working
from roadworthy.cli.options import RUN, AsJson, Canary, Folder, Trust
from roadworthy.runtime.engine import OnnxEngine
from roadworthy.runtime.latency import Latency, interleaved
from roadworthy.runtime.load import from_bundle
from roadworthy.spec.bundle import POLICY, Bundle
from roadworthy.spec.samples import draw_ordinary
from roadworthy.spec.targets import DEFAULT

STEP, PLAIN = "Policy.step", "InferenceSession.run"


def bench(
    folder: Folder,
    engines: Annotated[
        list[str] | None,
        typer.Option("--engine", help=RUN),
    ] = None,
    trust: Trust = False,
    canary: Canary = True,
    batch: Annotated[int, typer.Option(min=1, help="Rows in each step.")] = 1,
    rounds: Annotated[int, typer.Option(min=1, help="Bursts of ten steps.")] = 300,
    threads: Annotated[int, typer.Option(min=1, help="Threads inside a step.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Measure a step: median, 99th percentile and worst, beside a plain onnxruntime session.

    All take turns in short bursts, so that a busy machine is busy for all.

    roadworthy bench walker --batch 64

    roadworthy bench walker --engine onnx --engine aoti --trust
    """
    bundle = Bundle.open(folder)
    rows = bundle.signature.fixed_rows or batch
    inputs = draw_ordinary(bundle.signature, np.random.default_rng(0), steps=1, rows=rows)
    feed = {name: array[0] for name, array in inputs.items()}
    calls: dict[str, Callable[[], object]] = {}
    first_ms: dict[str, float] = {}
    for engine in dict.fromkeys(engines or [DEFAULT]):
        start = time.perf_counter()
        policy = from_bundle(bundle, engine=engine, trust=trust, threads=threads, canary=canary)
        policy.step(feed)
        name = STEP if engine == "onnx" else f"{STEP} ({engine})"
        first_ms[name] = (time.perf_counter() - start) * 1000
        calls[name] = partial(policy.step, feed)
    if STEP in calls:
        session = OnnxEngine(bundle.files[POLICY], threads=threads).session
        plain = feed | {memory.input: memory.fresh(rows) for memory in bundle.signature.memory}
        if bundle.signature.clock:
            plain[bundle.signature.clock] = np.zeros((), dtype=np.int32)
        calls[PLAIN] = partial(session.run, None, plain)
    with working(silent=as_json) as progress:
        progress("measuring")
        results = interleaved(calls, rounds=rounds)
    if as_json:
        print_json(_json(results, rows, threads, first_ms))
    else:
        _print(results, rows, threads, first_ms)


def _json(
    results: dict[str, Latency], rows: int, threads: int, first_ms: dict[str, float]
) -> dict[str, Any]:
    return {
        "batch": rows,
        "threads": threads,
        "load_to_first_action_ms": next(iter(first_ms.values())),
        "latency": {name: latency.to_json() for name, latency in results.items()},
    }


def _print(
    results: dict[str, Latency], rows: int, threads: int, first_ms: dict[str, float]
) -> None:
    made = table("", ">p50 µs", ">p99 µs", ">max µs", title=f"batch {rows}, threads {threads}")
    for name, latency in results.items():
        made.add_row(
            name, f"{latency.p50_us:.1f}", f"{latency.p99_us:.1f}", f"{latency.max_us:.0f}"
        )
    console = out()
    console.print(made)
    if PLAIN in results:
        times = results[PLAIN].p50_us / results[STEP].p50_us
        console.print(f"a plain run takes {times:.2f} times as long as a step", style="dim")
    for name, milliseconds in first_ms.items():
        which = "" if name == STEP else f" {name}"
        console.print(f"load to first action{which} {milliseconds:.1f} ms", style="dim")
