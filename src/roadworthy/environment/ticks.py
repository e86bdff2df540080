"""Ticks: what a living environment had and gave at each call of apply_actions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from roadworthy.capture.snapshot import preserved, walk
from roadworthy.environment.components import GetTensor
from roadworthy.environment.source import EnvironmentSource, Tensors


@dataclass(frozen=True, slots=True, eq=False)
class Tick:
    """What the environment had before one call of apply_actions, and gave after it."""

    inputs: Tensors
    outputs: Tensors
    memory: Tensors


@dataclass(slots=True, eq=False)
class LiveRun:
    """An environment that is being watch_ticks: `step` advances it and tells of every tick.

    Most environments call apply_actions once in each tick, and that call is seen. Where they
    apply actions in a way of their own, the ticks are those of a world that stands still.
    """

    source: EnvironmentSource
    seen: list[Tick] = field(default_factory=list)
    _stands_still: bool | None = None

    def step(self, actions: torch.Tensor) -> tuple[list[Tick], torch.Tensor, bool]:
        """The ticks of one policy step, the observations after it, and whether it was reset."""
        ticks = [] if self._stands_still is False else self._standing_ticks(actions)
        self.seen.clear()
        following, was_reset = self.source.env.step(actions.clone())
        if self._stands_still is None:
            self._stands_still = len(self.seen) != self.source.env.decimation
        if not self._stands_still:
            # What comes beyond the decimation belongs to a reset; what is missing, it cut off.
            ticks = self.seen[: self.source.env.decimation]
        return ticks, following, bool(was_reset)

    def _standing_ticks(self, actions: torch.Tensor) -> list[Tick]:
        """The ticks of a world that stands still, on an environment that is put back."""
        with preserved(self.source.env):
            self.seen.clear()
            self.source.env.process_actions(actions.clone())
            for _ in range(self.source.env.decimation):
                self.source.env.apply_actions()
            return list(self.seen)


@contextmanager
def watch_ticks(source: EnvironmentSource) -> Iterator[LiveRun]:
    """The life of an environment, wherever in it apply_actions is called."""
    life = LiveRun(source)
    depth = 0

    def watch(plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal depth
            inputs = current_values(source.inputs)
            depth += 1
            try:
                result = plain(*args, **kwargs)
            finally:
                depth -= 1
            # An adapter's method calls that of the environment inside: one tick, not two.
            if depth == 0:
                life.seen.append(
                    Tick(inputs, current_values(source.outputs), current_values(source.memory))
                )
            return result

        return call

    owners = [
        each
        for _, each in walk(source.env)
        if callable(getattr(type(each), "apply_actions", None)) and hasattr(each, "__dict__")
    ]
    own = [vars(owner).get("apply_actions") for owner in owners]
    for owner in owners:
        object.__setattr__(owner, "apply_actions", watch(owner.apply_actions))
    try:
        yield life
    finally:
        for owner, plain in zip(owners, own, strict=True):
            if plain is None:
                object.__delattr__(owner, "apply_actions")
            else:
                object.__setattr__(owner, "apply_actions", plain)


def current_values(ports: Mapping[str, GetTensor]) -> Tensors:
    """The values that the ports have now."""
    return {name: read().detach().clone() for name, read in ports.items()}
