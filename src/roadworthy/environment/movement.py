"""Movement: what changes while an environment lives, and by what cause."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from roadworthy.capture.snapshot import Value, changed, preserved, values
from roadworthy.environment.paths import Place, find
from roadworthy.environment.source import EnvironmentSource
from roadworthy.spec.port import Array

# Commands are resampled every few seconds, and some things change only with an episode.
LOOKED_AT = (1, 2, 3, 5, 8, 13, 21, 32)
MOST_SEEN = 3


@dataclass(frozen=True, slots=True)
class Movement:
    """The paths that moved, by cause: the captured step, or the world around it.

    `seen` holds a few of the other values that each of them had.
    """

    by_step: frozenset[str]
    by_world: frozenset[str]
    before: dict[str, Value]
    seen: dict[str, list[Any]]
    # By path, and by the identity of what lay there before anything moved.
    places: tuple[dict[str, Place], dict[int, Place]]

    @property
    def all(self) -> frozenset[str]:
        return self.by_step | self.by_world

    def moves(self, path: str, part: Array | None) -> bool:
        """Whether the value at a path moved, or that part of its elements."""
        if path not in self.all or part is None:
            return path in self.all
        was = self.before.get(path)
        if not isinstance(was, torch.Tensor):
            return True
        mask = torch.from_numpy(part)
        others = [each for each in self.seen.get(path, ()) if isinstance(each, torch.Tensor)]
        return any(each.shape != was.shape or bool((each != was)[mask].any()) for each in others)


def movement(source: EnvironmentSource) -> Movement:
    """What changes when the captured step runs, and what changes when the environment lives."""
    seen: dict[str, list[Any]] = {}
    places = find(source.roots)
    with preserved(*source.roots.values()), torch.inference_mode():
        before = values(source.roots)
        source.step()
        source.substep()
        by_step = _note(before, values(source.roots), seen)
    by_world: set[str] = set()
    with preserved(*source.roots.values()), torch.inference_mode():
        for step in range(1, max(LOOKED_AT) + 1):
            source.env.step(source.actor(source.env.compute_observations()))
            if step in LOOKED_AT:
                by_world |= _note(before, values(source.roots), seen)
        source.restart()
        by_world |= _note(before, values(source.roots), seen)
    return Movement(frozenset(by_step), frozenset(by_world - by_step), before, seen, places)


@contextmanager
def advanced(source: EnvironmentSource, steps: int) -> Iterator[None]:
    """The environment as it is so many policy steps from now; it is put back afterwards."""
    with preserved(*source.roots.values()), torch.inference_mode():
        for _ in range(steps):
            source.env.step(source.actor(source.env.compute_observations()))
        yield


def unreachable_moves(source: EnvironmentSource, tensor: torch.Tensor) -> bool:
    """Whether a tensor that no attribute leads to changes while the environment lives."""
    with preserved(*source.roots.values(), [tensor]), torch.inference_mode():
        was = tensor.clone()
        for _ in range(max(LOOKED_AT)):
            source.env.step(source.actor(source.env.compute_observations()))
            if not torch.equal(tensor, was):
                return True
        source.restart()
        return not torch.equal(tensor, was)


def _note(before: dict[str, Value], now: dict[str, Value], seen: dict[str, list[Any]]) -> set[str]:
    paths = changed(before, now)
    for path in paths:
        others = seen.setdefault(path, [])
        value = now.get(path)
        if len(others) < MOST_SEEN and isinstance(
            value, (torch.Tensor, bool, int, float, np.generic)
        ):
            others.append(value)
    return set(paths)
