"""Evaluation: the file beside the living environment, step by step and tick by tick."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from roadworthy.compat.exploy.first_decision import FIRST_KEY, SHIFTED_KEY
from roadworthy.compat.exploy.session import SessionWrapper
from roadworthy.environment.context import ContextManager
from roadworthy.environment.exportable import (
    ExportableEnvironment,
    Observations,
    register_idle_hooks,
)
from roadworthy.environment.source import (
    ACTIONS,
    CLOCK,
    OBSERVATIONS,
    EnvironmentSource,
    Tensors,
    observed_ports,
)
from roadworthy.environment.ticks import LiveRun, current_values, watch_ticks
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
    num_episodes: int | None = None,
    max_episode_steps: int | None = None,
    verbose: bool = True,
    reset_from_onnx_counter_steps: int = 50,
    atol: float = 1e-5,
    rtol: float = 1e-5,
    pause_on_failure: bool = False,
    *,
    num_steps: int | None = None,
) -> tuple[bool, Observations]:
    """Whether the file did what the environment did at every step, and the last observations.

    Each episode twice over: first the actor drives the environment and the file follows, then the
    file's own actions drive it. An episode ends when the environment is reset; `num_steps` in the
    place of both numbers runs on through resets. The file's memory is its own throughout, so
    `reset_from_onnx_counter_steps` has no effect.
    """
    if num_steps is None:
        episodes = _number("num_episodes", num_episodes)
        steps = _number("max_episode_steps", max_episode_steps)
    else:
        episodes, steps = 1, _number("num_steps", num_steps)
    _refuse_other_context(env, context_manager)
    evaluation = _Evaluation(
        env, session_wrapper, Judge(env.get_observation_names(), atol, rtol), verbose=verbose
    )
    with torch.no_grad():
        observations = env.observations_reset()
        for _ in range(episodes):
            for last in evaluation.both_ways(steps, through_resets=num_steps is not None):
                observations = last
            if evaluation.judge.failures and pause_on_failure:
                input(f"{evaluation.judge.failures[0]}\npress ENTER to go on")
    return evaluation.verdict(), observations


def evaluate_episode(
    env: ExportableEnvironment,
    context_manager: ContextManager,
    session_wrapper: SessionWrapper,
    max_num_steps: int,
    verbose: bool = True,
    reset_from_onnx_counter_steps: int = 50,
    atol: float = 1e-5,
    rtol: float = 1e-5,
    pause_on_failure: bool = False,
) -> tuple[bool, Observations]:
    """`evaluate` for one episode of at most so many steps."""
    return evaluate(
        env,
        context_manager,
        session_wrapper,
        num_episodes=1,
        max_episode_steps=_number("max_num_steps", max_num_steps),
        verbose=verbose,
        reset_from_onnx_counter_steps=reset_from_onnx_counter_steps,
        atol=atol,
        rtol=rtol,
        pause_on_failure=pause_on_failure,
    )


def _number(name: str, value: object) -> int:
    """A number of steps or episodes. True is none: it came from a call in another order."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise UsageError(
        f"{name} is missing"
        if value is None
        else f"{name}: expected a whole number, got {value!r}",
        where="evaluate",
        hint="pass num_episodes=… and max_episode_steps=…, or num_steps=… alone",
    )


def _refuse_other_context(env: ExportableEnvironment, context: ContextManager) -> None:
    if context is not env.context_manager():
        raise UsageError(
            "this context manager is not that of the environment",
            where="evaluate",
            hint="pass env.context_manager()",
        )


class _Evaluation:
    """The episodes of one environment beside one file."""

    def __init__(
        self, env: ExportableEnvironment, session: SessionWrapper, judge: Judge, *, verbose: bool
    ) -> None:
        actor = session.get_actor()
        if actor is None:
            raise UsageError(
                "the session has no actor to compare the file with",
                hint="make it with one: SessionWrapper(folder, name, actor=actor)",
            )
        register_idle_hooks(env)
        self.source = EnvironmentSource(env, actor)
        self.session, self.judge, self.verbose = session, judge, verbose

    def both_ways(self, steps: int, *, through_resets: bool) -> Iterator[Observations]:
        """The observations after each step of two episodes: the actor's, and the file's own."""
        for closed in (False, True):
            with watch_ticks(self.source) as living:
                run = _Run(living, self.session, self.judge, closed=closed)
                bar = _Bar(steps, closed) if self.verbose else None
                yield from run.play(steps, bar, through_resets=through_resets)

    def verdict(self) -> bool:
        if self.judge.failures and self.verbose:
            sys.stdout.write(f"first divergence: {self.judge.failures[0]}\n{CAUSES}\n")
        return not self.judge.failures and self.judge.compared > 0


@dataclass
class Judge:
    """Compares values and keeps every failure, in words.

    `starts` are the memories that began an episode otherwise than the file. By itself that proves
    nothing, for what is written before it is read may begin as it likes; where something fails
    after it, it is the cause.
    """

    observation_names: list[str]
    atol: float
    rtol: float
    failures: list[str] = field(default_factory=list)
    starts: list[str] = field(default_factory=list)
    compared: int = 0

    def compare(self, step: int, tick: int, port: str, expected: torch.Tensor, got: Array) -> None:
        self.compared += 1
        difference = self._difference(step, tick, port, expected, got)
        if difference:
            self.failures += [*self.starts, difference]
            self.starts = []

    def start(self, step: int, memory: Tensors, fresh: Mapping[str, Array]) -> None:
        """Notes which memories begin an episode otherwise than the file."""
        differing = (
            self._difference(step, 0, f"memory.{name}.in", value, fresh[name])
            for name, value in memory.items()
        )
        self.starts = [each for each in differing if each]

    def _difference(
        self, step: int, tick: int, port: str, expected: torch.Tensor, got: Array
    ) -> str:
        """The first element that differs, in words; nothing where none does."""
        truth = expected.detach().cpu().numpy()
        if truth.shape != got.shape:
            return f"{port} at step {step}: shape {truth.shape}, got {got.shape}"
        close = np.isclose(got, truth, rtol=self.rtol, atol=self.atol, equal_nan=True)
        if close.all():
            return ""
        place = tuple(int(i) for i in np.argwhere(~close)[0])
        return (
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
        said = session.metadata.custom_metadata_map
        text = said.get(SIGNATURE_KEY) or said.get(SHIFTED_KEY)
        self.first_count = int(said.get(FIRST_KEY, 0))
        if text is None:
            raise UsageError(
                "the file has no signature: Roadworthy did not write it",
                where="evaluate",
                hint="export the environment with Roadworthy first",
            )
        self.signature = Signature.from_json(json.loads(text))
        self._refuse_other_ports()

    def _refuse_other_ports(self) -> None:
        """A file that lacks a port of the environment was made from another registration.

        But for inputs: those that nothing depends on are left out.
        """
        lacking = [
            *(name for name in self.source.outputs if name not in self.session.output_names),
            *set(self.source.memory) - {each.name for each in self.signature.memory},
        ]
        if lacking:
            raise UsageError(
                f"the file has no port {lacking[0]!r}, the environment registers it",
                where="evaluate",
                hint="the registration has changed: export the environment again",
            )

    def play(self, steps: int, bar: _Bar | None, *, through_resets: bool) -> Iterator[Observations]:
        memory = self._restart(0, was_reset=False)
        for step in range(steps):
            before = len(self.judge.failures)
            observations, memory, was_reset = self._step(step, memory)
            if bar:
                bar.show(step, failed=len(self.judge.failures) > before)
            yield observations
            if was_reset and not through_resets:
                break
            if was_reset:
                memory = self._restart(step + 1, was_reset=True)

    def _restart(self, step: int, *, was_reset: bool) -> dict[str, Array]:
        """The memory that the file begins an episode with.

        Its own, where there was a reset. An environment whose observations_reset() resets nothing
        goes on where it was, and the file goes on from there with it.
        """
        before = current_values(self.source.inputs)
        self.session.reset()
        self.living.restart()
        after = current_values(self.source.inputs)
        kept = self.living.memory()
        if not was_reset and all(torch.equal(after[name], before[name]) for name in before):
            return {name: value.cpu().numpy() for name, value in kept.items()} | {
                each.name: each.fresh(self.source.rows)
                for each in self.signature.memory
                if each.name not in kept
            }
        fresh = {each.name: each.fresh(self.source.rows) for each in self.signature.memory}
        self.judge.start(step, kept, fresh)
        return fresh

    def _step(
        self, step: int, memory: dict[str, Array]
    ) -> tuple[Observations, dict[str, Array], bool]:
        decision, actions = self.living.decide()
        got, memory = self._infer(0, memory, decision.inputs)
        for port, value in observed_ports(decision.observations).items():
            self.judge.compare(step, 0, port, value, got[port])
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
        inputs[CLOCK] = np.asarray(self.first_count + tick, dtype=np.int32)
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
