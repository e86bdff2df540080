"""Evaluation: the file beside the living environment, step by step and tick by tick."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from roadworthy.compat.exploy.session import SessionWrapper
from roadworthy.environment.context import ContextManager
from roadworthy.environment.exportable import ExportableEnvironment
from roadworthy.environment.source import (
    ACTIONS,
    CLOCK,
    OBSERVATIONS,
    EnvironmentSource,
    Tensors,
)
from roadworthy.environment.ticks import LiveRun, watch_ticks
from roadworthy.errors import UsageError
from roadworthy.spec.bundle import SIGNATURE_KEY
from roadworthy.spec.port import Array
from roadworthy.spec.signature import Signature

CAUSES = """likely causes:
  • an observation reads a tensor that is not registered, or is registered by a copy
  • a value that persists between steps is not registered as Memory
  • the actor, or a module in the observations, is not in evaluation mode
  • process_actions or apply_actions keeps something in a Python number"""


def evaluate(
    env: ExportableEnvironment,
    context_manager: ContextManager,
    session_wrapper: SessionWrapper,
    num_steps: int | None = None,
    verbose: bool = True,
    pause_on_failure: bool = False,
    *,
    num_episodes: int | None = None,
    max_episode_steps: int | None = None,
    atol: float = 1e-5,
    rtol: float = 1e-5,
    reset_from_onnx_counter_steps: int | None = None,
) -> tuple[bool, torch.Tensor]:
    """Whether the file did what the environment did at every step, and the last observations.

    Twice over: first the actor drives the environment and the file follows, then the file's own
    actions drive it. The file's memory is its own throughout and is never set from the
    environment, so `reset_from_onnx_counter_steps` has no effect.
    """
    actor = session_wrapper.get_actor()
    if actor is None:
        raise UsageError(
            "the session has no actor to compare the file with",
            hint="make it with one: SessionWrapper(folder, name, actor=actor)",
        )
    steps = _number_of_steps(num_steps, num_episodes, max_episode_steps)
    judge = Judge(env.get_observation_names(), atol, rtol)
    with torch.no_grad():
        observations = env.observations_reset()
        for closed in (False, True):
            with watch_ticks(EnvironmentSource(env, actor)) as living:
                run = _Run(living, session_wrapper, judge, closed=closed)
                observations = run.play(steps, _Bar(steps, closed) if verbose else None)
            if judge.failures and pause_on_failure:
                input(f"{judge.failures[0]}\npress ENTER to go on")
    if judge.failures and verbose:
        sys.stdout.write(f"first divergence: {judge.failures[0]}\n{CAUSES}\n")
    return not judge.failures and judge.compared > 0, observations


def _number_of_steps(steps: int | None, episodes: int | None, each: int | None) -> int:
    if steps is not None:
        return steps
    if episodes is None or each is None:
        raise UsageError(
            "the number of steps is missing",
            hint="pass num_steps=…, or num_episodes=… and max_episode_steps=…",
        )
    return episodes * each


@dataclass
class Judge:
    """Compares values and keeps every failure, in words."""

    observation_names: list[str]
    atol: float
    rtol: float
    failures: list[str] = field(default_factory=list)
    compared: int = 0

    def compare(self, step: int, tick: int, port: str, expected: torch.Tensor, got: Array) -> None:
        self.compared += 1
        truth = expected.detach().cpu().numpy()
        if truth.shape != got.shape:
            self.failures.append(f"{port} at step {step}: shape {truth.shape}, got {got.shape}")
            return
        close = np.isclose(got, truth, rtol=self.rtol, atol=self.atol, equal_nan=True)
        if not close.all():
            place = tuple(int(i) for i in np.argwhere(~close)[0])
            self.failures.append(
                f"{port}{self._element(port, place)} at step {step}, tick {tick}: "
                f"environment {truth[place]:.7g}, file {got[place]:.7g}"
            )

    def _element(self, port: str, place: tuple[int, ...]) -> str:
        if port == OBSERVATIONS and place and place[-1] < len(self.observation_names):
            return f"[{self.observation_names[place[-1]]}]"
        return "".join(f"[{index}]" for index in place)


class _Run:
    """One pass over the environment, driven by the actor or by the file."""

    def __init__(
        self, living: LiveRun, session: SessionWrapper, judge: Judge, *, closed: bool
    ) -> None:
        self.living = living
        self.source = living.source
        self.session = session
        self.judge = judge
        self.closed = closed
        text = session.metadata.custom_metadata_map.get(SIGNATURE_KEY)
        if text is None:
            raise UsageError(
                "the file has no signature: Roadworthy did not write it",
                where="evaluate",
                hint="export the environment with Roadworthy first",
            )
        self.signature = Signature.from_json(json.loads(text))
        self._refuse_other_ports()

    def _refuse_other_ports(self) -> None:
        """A file that lacks a port of the environment was made from another registration."""
        lacking = [
            *(name for name in self.source.inputs if name not in self.session.input_names),
            *(name for name in self.source.outputs if name not in self.session.output_names),
            *set(self.source.memory) - {each.name for each in self.signature.memory},
        ]
        if lacking:
            raise UsageError(
                f"the file has no port {lacking[0]!r}, the environment registers it",
                where="evaluate",
                hint="the registration has changed: export the environment again",
            )

    def play(self, steps: int, bar: _Bar | None) -> torch.Tensor:
        observations = self.source.env.compute_observations()
        memory = self._restart()
        for step in range(steps):
            before = len(self.judge.failures)
            observations, memory, was_reset = self._step(step, memory)
            if was_reset:
                memory = self._restart()
            if bar:
                bar.show(step, failed=len(self.judge.failures) > before)
        return observations

    def _restart(self) -> dict[str, Array]:
        self.session.reset()
        self.living.restart()
        return {each.name: each.fresh(self.source.rows) for each in self.signature.memory}

    def _step(
        self, step: int, memory: dict[str, Array]
    ) -> tuple[torch.Tensor, dict[str, Array], bool]:
        decision, actions = self.living.decide()
        for name, value in decision.memory.items():
            self.judge.compare(step, 0, f"memory.{name}.in", value, memory[name])
        got, memory = self._infer(0, memory, decision.inputs)
        self.judge.compare(step, 0, OBSERVATIONS, decision.observations, got[OBSERVATIONS])
        self.judge.compare(step, 0, ACTIONS, actions, got[ACTIONS])
        driven = torch.from_numpy(got[ACTIONS]) if self.closed else actions
        ticks, following, was_reset = self.living.step(driven)
        for tick, seen in enumerate(ticks):
            if tick:
                got, memory = self._infer(tick, memory, seen.inputs)
            for port, value in seen.outputs.items():
                self.judge.compare(step, tick, port, value, got[port])
            for name, value in seen.memory.items():
                self.judge.compare(step, tick, f"memory.{name}.out", value, memory[name])
        return following, memory, was_reset

    def _infer(
        self, tick: int, memory: Mapping[str, Array], raw: Tensors
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        inputs: dict[str, Any] = {name: value.cpu().numpy() for name, value in raw.items()}
        inputs |= {each.input: memory[each.name] for each in self.signature.memory}
        inputs[CLOCK] = np.asarray(tick, dtype=np.int32)
        got = dict(zip(self.session.output_names, self.session(**inputs), strict=True))
        return got, {each.name: got[each.output] for each in self.signature.memory}


@dataclass(frozen=True)
class _Bar:
    """A line that grows: one mark in forty for the share of steps done, red crosses counted."""

    steps: int
    closed: bool

    def show(self, step: int, *, failed: bool) -> None:
        done = (step + 1) * 40 // self.steps
        kind = "closed loop" if self.closed else "lockstep   "
        mark = "✗" if failed else "✓"
        end = "\n" if step + 1 == self.steps else ""
        sys.stdout.write(f"\r{kind} [{'#' * done:<40}] {step + 1}/{self.steps} {mark}{end}")
