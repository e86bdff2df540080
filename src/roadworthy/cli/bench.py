"""`roadworthy bench`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from roadworthy.cli.console import out, print_json, table, working
from roadworthy.runtime.engine import OnnxEngine
from roadworthy.runtime.latency import Latency, interleaved
from roadworthy.runtime.load import from_bundle
from roadworthy.spec.bundle import POLICY, Bundle
from roadworthy.spec.samples import draw


def bench(
    folder: Annotated[Path, typer.Argument(help="A bundle folder.")],
    batch: Annotated[int, typer.Option(min=1, help="Rows in each step.")] = 1,
    rounds: Annotated[int, typer.Option(min=1, help="Bursts of ten steps.")] = 300,
    threads: Annotated[int, typer.Option(min=1, help="Threads inside a step.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure a step: median, 99th percentile and worst, beside a plain onnxruntime session.

    Both take turns in short bursts, so that a busy machine is busy for both.

    roadworthy bench walker --batch 64
    """
    bundle = Bundle.open(folder)
    rows = bundle.signature.fixed_rows or batch
    inputs = draw(bundle.signature, np.random.default_rng(0), steps=1, rows=rows)
    feed = {name: array[0] for name, array in inputs.items()}
    start = time.perf_counter()
    policy = from_bundle(bundle, threads=threads)
    policy.step(feed)
    first_ms = (time.perf_counter() - start) * 1000
    session = OnnxEngine(bundle.files[POLICY], threads=threads).session
    plain = feed | {memory.input: memory.fresh(rows) for memory in bundle.signature.memory}
    if bundle.signature.clock:
        plain[bundle.signature.clock] = np.zeros((), dtype=np.int32)
    with working(silent=as_json) as progress:
        progress("measuring")
        results = interleaved(
            {
                "Policy.step": lambda: policy.step(feed),
                "InferenceSession.run": lambda: session.run(None, plain),
            },
            rounds=rounds,
        )
    if as_json:
        print_json(_json(results, rows, threads, first_ms))
    else:
        _print(results, rows, threads, first_ms)


def _json(results: dict[str, Latency], rows: int, threads: int, first_ms: float) -> dict[str, Any]:
    return {
        "batch": rows,
        "threads": threads,
        "load_to_first_action_ms": first_ms,
        "latency": {name: latency.to_json() for name, latency in results.items()},
    }


def _print(results: dict[str, Latency], rows: int, threads: int, first_ms: float) -> None:
    made = table("", ">p50 µs", ">p99 µs", ">max µs", title=f"batch {rows}, threads {threads}")
    for name, latency in results.items():
        made.add_row(
            name, f"{latency.p50_us:.1f}", f"{latency.p99_us:.1f}", f"{latency.max_us:.0f}"
        )
    step, run = (results[name].p50_us for name in ("Policy.step", "InferenceSession.run"))
    console = out()
    console.print(made)
    console.print(f"a plain run takes {run / step:.2f} times as long as a step", style="dim")
    console.print(f"load to first action {first_ms:.1f} ms", style="dim")
