"""`Policy.step` by engine: onnxruntime, the policy as C, the same C in WebAssembly.

Policies from a small MLP to frames of a game and whole environments, mjlab's Go1 among them where
mjlab is installed; bursts take turns, on one core. Two environments and Go1 decide at every fourth
tick: the median is a tick between, the mean has all of them. Then a robot's loop: at 500 Hz, with
4 MB of other work between two steps, where what counts is a step from cold caches. The result goes
to results/c_engines.json.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

import machine
import numpy as np
import torch
from environment import DECIMATION, Robot
from sixty_operators import Walker
from step_latency import mlp
from step_latency import sources as usual
from torch import Tensor, nn

import roadworthy as rw
from roadworthy.environment import ExportableEnvironment
from roadworthy.runtime.latency import interleaved

# Name → engine and device.
ENGINES = {"onnx": ("onnx", "cpu"), "c": ("c", "cpu"), "wasm": ("c", "wasm")}
PERIOD_S, OTHER_WORK = 0.002, 4 * 2**20
PACED = ("MLP 48-512-256-128-12 with normaliser", "MLP 4-64-64-2", "LSTM 256")


class Nature(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
            nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten(),
            nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 6),
        )  # fmt: skip

    def forward(self, obs: Tensor) -> Tensor:
        out: Tensor = self.net(obs)
        return out


class Frames(Nature):
    """From a frame of a game: grey, every second row and column, four copies."""

    def forward(self, obs: Tensor) -> Tensor:
        grey = obs.float().mean(-1) / 255.0
        small = grey[:, 21:189:2, :160:2]
        wide = nn.functional.pad(small, (2, 2)).unsqueeze(1)
        return super().forward(wide.expand(-1, 4, -1, -1))


class Attention(nn.Module):
    """A transformer over 8 tokens of 128, two layers."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(128, 12)
        # PyTorch copies the first layer: trained ones are not alike, and do not share their caches.
        for each in self.encoder.parameters():
            if each.dim() > 1:
                nn.init.xavier_uniform_(each)

    def forward(self, obs: Tensor) -> Tensor:
        out: Tensor = self.head(self.encoder(obs)[:, -1])
        return out


class TwoRates(Robot):
    """The benchmark's robot with 12 joints: 48 observations, targets at every tick."""

    def __init__(self) -> None:
        super().__init__()
        self.foo, self.bar, self.baz = torch.ones(1, 12), torch.ones(1, 12), torch.ones(1, 12)
        self.last, self.target, self.command = (torch.zeros(1, 12) for _ in range(3))

    def compute_observations(self) -> Tensor:
        parts = [self.foo * 2.0 - 1.0, (self.bar + 2 * self.baz).clamp(-5, 5), self.baz, self.last]
        return torch.cat(parts, dim=-1)

    def observations_reset(self) -> Tensor:
        super().observations_reset()
        self.target = torch.zeros(1, 12)
        return self.compute_observations()

    def empty_actions(self) -> Tensor:
        return torch.zeros(1, 12)


def sources() -> dict[str, rw.Source]:
    """Every policy but the environment, by name."""
    found = usual()
    torch.manual_seed(0)
    return found | {
        "Nature CNN": rw.Source(Nature(), example={"obs": torch.zeros(1, 4, 84, 84)}),
        "Nature CNN from frames": rw.Source(
            Frames(), example={"obs": torch.zeros(1, 210, 160, 3, dtype=torch.uint8)}
        ),
        "transformer 8x128": rw.Source(Attention().eval(), example={"obs": torch.zeros(1, 8, 128)}),
    }


def large_actor() -> nn.Module:
    torch.manual_seed(0)
    return mlp([48, 512, 256, 128, 12], nn.ELU)


def small_actor() -> nn.Module:
    torch.manual_seed(0)
    return mlp([48, 64, 64, 12], nn.ELU)


# Name → the environment, its actor.
ENVIRONMENTS: dict[str, tuple[type[ExportableEnvironment], Callable[[], nn.Module]]] = {
    "environment of sixty operators around the MLP": (Walker, large_actor),
    "environment around the MLP": (TwoRates, large_actor),
    "environment around a small MLP": (TwoRates, small_actor),
}
# A hundred operators around an MLP of 48-512-256-128-12, as a framework builds them.
GO1 = "mjlab's Go1 on flat ground"


def exported(folder: Path, wanted: Collection[str] | None = None) -> dict[str, Path]:
    """The bundles of some policies, or of all, by name; one that lies there is taken as it is."""
    given = sources()
    real = (GO1,) if importlib.util.find_spec("mjlab") else ()
    names = [name for name in (*given, *ENVIRONMENTS, *real) if not wanted or name in wanted]
    found = {name: folder / name.replace(" ", "_").replace("'", "") for name in names}
    for name, place in found.items():
        if place.is_dir():
            continue
        if name in given:
            rw.export(given[name], place)
        elif name == GO1:
            from mjlab_go1 import TASK, made

            rw.export_environment(*made(TASK), place)
        else:
            env, actor = ENVIRONMENTS[name]
            rw.export_environment(env(), actor(), place)
    return found


def inputs(signature: rw.Signature) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    found = {}
    for port in signature.inputs:
        shape = [1 if isinstance(size, str) else size for size in port.shape]
        values = rng.standard_normal(shape) * (100 if port.dtype == "uint8" else 1)
        found[port.name] = np.abs(values).astype(port.dtype)
    return found


def periods(call: Callable[[], object], rounds: int) -> float:
    """Microseconds of a tick, over whole periods: processor time, the median of many bursts."""
    taken = []
    for _ in range(rounds):
        begin = time.thread_time()
        for _ in range(10 * DECIMATION):
            call()
        taken.append((time.thread_time() - begin) / (10 * DECIMATION) * 1e6)
    return float(np.median(taken))


def paced(policies: dict[str, rw.Policy], feed: dict[str, Any], steps: int) -> dict[str, float]:
    """The median microseconds of a step in a loop with other work and sleep around it."""
    other = np.zeros(OTHER_WORK // 4, np.float32)
    taken: dict[str, list[float]] = {name: [] for name in policies}
    for _ in range(steps):
        for name, policy in policies.items():
            other += 1.0
            time.sleep(PERIOD_S / len(policies))
            begin = time.perf_counter()
            policy.step(feed)
            taken[name].append((time.perf_counter() - begin) * 1e6)
    return {name: float(np.median(each)) for name, each in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--out", type=Path, default=machine.RESULTS / "c_engines.json")
    parser.add_argument("--folder", type=Path, help="where bundles are kept for the next time")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for title, folder in exported(arguments.folder or Path(scratch)).items():
            policies = {
                name: rw.load(folder, engine=engine, device=device)
                for name, (engine, device) in ENGINES.items()
            }
            feed = inputs(policies["onnx"].signature)
            calls = {engine: partial(policy.step, feed) for engine, policy in policies.items()}
            took = interleaved(calls, rounds=arguments.rounds)
            row: dict[str, Any] = {engine: each.to_json() for engine, each in took.items()}
            row["onnx_over_c"] = took["onnx"].p50_us / took["c"].p50_us
            row["wasm_over_onnx"] = took["wasm"].p50_us / took["onnx"].p50_us
            if title in (*ENVIRONMENTS, GO1):
                means = {engine: periods(call, arguments.rounds) for engine, call in calls.items()}
                row["mean_us"] = means
                row["mean_onnx_over_c"] = means["onnx"] / means["c"]
                row["mean_wasm_over_onnx"] = means["wasm"] / means["onnx"]
            if title in PACED:
                both = {engine: policies[engine] for engine in ("onnx", "c")}
                loop = paced(both, feed, 10 * arguments.rounds)
                row["paced_us"] = loop
                row["paced_onnx_over_c"] = loop["onnx"] / loop["c"]
            results[title] = row
            ratios = {k: round(v, 2) for k, v in row.items() if "over" in k}
            print(title, {k: round(each.p50_us, 2) for k, each in took.items()}, ratios, flush=True)
    print(f"written to {machine.write(arguments.out, {'policies': results})}")


if __name__ == "__main__":
    main()
