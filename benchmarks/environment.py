"""A whole environment: capture and export beside a bare torch.onnx.export, and a tick's cost.

The environment is the tutorial's: observations from three tensors and the last action, an MLP,
action processing at two rates. The rival is the same mathematics written by hand as one module.
"""

from __future__ import annotations

import argparse
import io
import statistics
import tempfile
import time
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import machine
import numpy as np
import onnxruntime
import torch
from torch import Tensor, nn

import roadworthy as rw
from roadworthy.environment import ExportableEnvironment, Input, Memory, Output
from roadworthy.environment.capture import capture_environment
from roadworthy.environment.source import EnvironmentSource
from roadworthy.errors.quiet import quiet
from roadworthy.runtime.latency import interleaved
from roadworthy.spec.bundle import POLICY
from roadworthy.targets.onnx.backend import OnnxBackend

DECIMATION = 4


class Robot(ExportableEnvironment):
    def __init__(self) -> None:
        super().__init__()
        self.foo, self.bar, self.baz = torch.ones(1, 4), torch.ones(1, 2), torch.ones(1, 2)
        self.last, self.target, self.command = (torch.zeros(1, 2) for _ in range(3))
        components = self.context_manager()
        for name in ("foo", "bar", "baz"):
            components.add_component(Input(name, partial(getattr, self, name)))
        components.add_component(Output("command", lambda: self.command))
        components.add_component(Memory("last", lambda: self.last))
        components.add_component(Memory("target", lambda: self.target))

    @property
    def decimation(self) -> int:
        return DECIMATION

    def compute_observations(self) -> Tensor:
        return torch.cat([self.foo + 1, self.bar + 2 * self.baz, self.baz, self.last], dim=-1)

    def process_actions(self, actions: Tensor) -> None:
        self.last[:] = actions
        self.target = 3 * actions

    def apply_actions(self) -> None:
        self.command = self.target + 2 - 0.1 * self.bar

    def step(self, actions: Tensor) -> tuple[Tensor, bool]:
        self.process_actions(actions)
        for _ in range(DECIMATION):
            self.apply_actions()
            self.foo += 0.1
            self.bar += 0.2
            self.baz += 0.3
        return self.compute_observations(), False

    def observations_reset(self) -> Tensor:
        for each in (self.foo, self.bar, self.baz):
            each.fill_(1.0)
        self.last.zero_()
        self.target = torch.zeros(1, 2)
        return self.compute_observations()

    def empty_actions(self) -> Tensor:
        return torch.zeros(1, 2)


class ByHand(nn.Module):
    """The same mathematics as a module, both halves of the step in one graph."""

    def __init__(self, actor: nn.Module) -> None:
        super().__init__()
        self.actor = actor

    def forward(
        self, foo: Tensor, bar: Tensor, baz: Tensor, last: Tensor, target: Tensor
    ) -> tuple[Tensor, ...]:
        obs = torch.cat([foo + 1, bar + 2 * baz, baz, last], dim=-1)
        actions = self.actor(obs)
        decided = 3 * actions
        return actions, obs, decided + 2 - 0.1 * bar, target + 2 - 0.1 * bar, decided


def seconds(call: Any) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=machine.RESULTS / "environment.json")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    actor = nn.Sequential(nn.Linear(10, 64), nn.ELU(), nn.Linear(64, 2)).eval()
    env, by_hand = Robot(), ByHand(actor)
    example = tuple(torch.randn(1, n) for n in (4, 2, 2, 2, 2))

    def bare() -> None:
        with quiet(), redirect_stdout(io.StringIO()):
            torch.onnx.export(by_hand, example, dynamo=True, opset_version=20, verbose=False)

    with tempfile.TemporaryDirectory() as scratch:

        def ours() -> None:
            OnnxBackend().lower(
                capture_environment(EnvironmentSource(env, actor)).program, Path(scratch)
            )

        bare()
        ours()
        taken: dict[str, list[float]] = {"capture and lower": [], "bare torch.onnx.export": []}
        for _ in range(arguments.rounds):
            taken["capture and lower"].append(seconds(ours))
            taken["bare torch.onnx.export"].append(seconds(bare))
        bundle = rw.export_environment(env, actor, Path(scratch) / "robot")
        policy = rw.load(bundle.folder)
    export_s = {name: statistics.median(times) for name, times in taken.items()}
    feed = {name: np.ones((1, n), np.float32) for name, n in (("foo", 4), ("bar", 2), ("baz", 2))}
    ratio = export_s["capture and lower"] / export_s["bare torch.onnx.export"]
    latency = _ticks(policy, bundle.files[POLICY], feed)
    for name, value in export_s.items():
        print(f"{name:<26}{value:8.2f} s")
    print(f"ratio {ratio:.2f}×")
    for name, each in latency.items():
        print(f"{name:<26}{each['p50_us']:8.1f} µs a tick, p99 {each['p99_us']:.1f}")
    between = _between(policy, env, feed)
    for name, each in between.items():
        print(f"{name:<26}{each['p50_us']:8.1f} µs between decisions")
    results = {
        "export_s": export_s,
        "export_ratio": ratio,
        "tick": latency,
        "between_decisions": between,
    }
    print(f"written to {machine.write(arguments.out, results)}")


def _between(policy: rw.Policy, env: Robot, feed: dict[str, Any]) -> dict[str, Any]:
    """A tick between two decisions: the policy's, and the environment's own."""
    tensors = [(getattr(env, name), value) for name, value in feed.items()]

    def tick() -> Any:
        policy._buffers.ticks[...] = 1
        return policy.step(feed)

    def alone() -> None:
        with torch.inference_mode():
            env.apply_actions()

    def eager() -> Any:
        with torch.inference_mode():
            for tensor, value in tensors:
                tensor.copy_(torch.from_numpy(value))
            env.apply_actions()
            return env.command.numpy().copy()

    policy.step(feed)
    calls = {"Policy.step": tick, "eager, arrays in and out": eager, "apply_actions alone": alone}
    return {name: each.to_json() for name, each in interleaved(calls).items()}


def _ticks(policy: rw.Policy, model: bytes, feed: dict[str, Any]) -> dict[str, Any]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_cpu_mem_arena = False
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    memory = policy.signature.memory
    feeds = feed | {each.input: each.fresh(1) for each in memory}
    names = [port.name for port in session.get_outputs()]
    positions = [(each.input, names.index(each.output)) for each in memory]
    tick = 0

    def plain() -> Any:
        nonlocal tick
        feeds["ctx.step_count"] = np.asarray(tick % DECIMATION, dtype=np.int32)
        results = session.run(None, feeds)
        for name, position in positions:
            feeds[name] = results[position]
        tick += 1
        return results

    measured = interleaved(
        {"Policy.step": lambda: policy.step(feed), "InferenceSession.run": plain}
    )
    return {name: each.to_json() for name, each in measured.items()}


if __name__ == "__main__":
    main()
