"""What can be reset and stepped, and the one loop that follows inputs and resets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from roadworthy.spec.port import Array
from roadworthy.spec.signature import Signature

Arrays = dict[str, Array]
# Rows begin a new episode after so many steps, on the average.
EPISODE_STEPS = 40


class Steppable(Protocol):
    """A policy in any form: an original, a mutant of it, an artifact."""

    def reset(self, mask: Array | None = None) -> None:
        """Memory back to its initial value, in every row or in those where `mask` is true."""

    def step(self, inputs: Mapping[str, Array]) -> Arrays:
        """The outputs of one step; memory moves on."""

    @property
    def memory(self) -> Arrays:
        """A copy of what persists, by name."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Script:
    """What a policy is put through: its inputs, and which rows are reset before which step.

    `inputs` maps a port to an array (steps, *shape); `resets` is (steps, rows).
    """

    inputs: Arrays
    resets: Array

    @property
    def steps(self) -> int:
        return int(self.resets.shape[0])

    @property
    def rows(self) -> int:
        return int(self.resets.shape[1])

    def now(self, step: int) -> Arrays:
        """The inputs of one step."""
        return {name: array[step] for name, array in self.inputs.items()}


def follow(steppable: Steppable, script: Script) -> Iterator[Arrays]:
    """The outputs of each step of the script, in order."""
    for step in range(script.steps):
        reset_rows(steppable, script.resets[step])
        yield steppable.step(script.now(step))


def reset_rows(steppable: Steppable, begins: Array) -> None:
    """Resets the rows that begin an episode, if there are any."""
    if begins.all():
        steppable.reset()
    elif begins.any():
        steppable.reset(begins)


def outputs_of(steppable: Steppable, script: Script) -> Arrays:
    """All outputs of the script: port → (steps, *shape)."""
    return stacked(list(follow(steppable, script)))


def stacked(steps: list[Arrays]) -> Arrays:
    """The values of many steps: port → (steps, *shape)."""
    return {name: np.stack([each[name] for each in steps]) for name in steps[0]}


def draw_resets(
    signature: Signature, rng: np.random.Generator, *, steps: int, rows: int, life: int = 0
) -> Array:
    """Which rows begin an episode at which step: all at the first, then each at its own time.

    The first two rows live for `life` steps before they begin anew; a single row does so twice.
    """
    resets: Array = rng.random((steps, rows)) < 1 / EPISODE_STEPS
    resets[steps // 2] = True
    if life:
        lives = 1 if rows > 1 else 2
        resets[: lives * life, :2] = False
        resets[life : life + 1, :2] = True
    elif signature.memory and not signature.fixed_rows:
        # One row lives on for a while, whatever it may keep.
        resets[: steps // 2, 0] = False
    resets[0] = True
    if signature.clock and not signature.fixed_rows:
        # The clock is the same for all rows: single rows are reset only when all decide.
        decides = np.arange(steps) % signature.decimation == 0
        resets &= decides[:, None]
    if not signature.fixed_rows:
        return resets
    # Where the number of rows is fixed they are reset together.
    together = resets[:, :2] if life else resets
    return together.any(axis=1, keepdims=True).repeat(rows, axis=1)
