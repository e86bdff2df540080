"""Plays: one episode of every row, driven by the original, by an artifact, or by a twin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.errors import UsageError
from roadworthy.runtime.gym.batch import EnvBatch, env_batch
from roadworthy.runtime.gym.closed_loop import ClosedLoop
from roadworthy.runtime.gym.play import turns
from roadworthy.runtime.noise import NoiseSource
from roadworthy.spec.port import Array
from roadworthy.spec.run import Arrays, Run, Steppable, stacked
from roadworthy.spec.signature import Signature
from roadworthy.verification.twins import moved_inputs

# Episodes that are played side by side: enough to keep both sides busy, few enough for memory.
MOST_ROWS = 32


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Play(Run):
    """What happened from one seed.

    playing  (steps, rows): where the first episode of the row was still going on
    returns  what each row earned in it
    """

    playing: Array
    returns: tuple[float, ...]


class Remembered:
    """A player whose memory is looked at before and after each step."""

    def __init__(self, player: Steppable) -> None:
        self._player = player
        self.before: list[Arrays] = []
        self.after: list[Arrays] = []

    def reset(self, mask: Array | None = None) -> None:
        self._player.reset(mask)

    def step(self, inputs: Mapping[str, Array]) -> Arrays:
        self.before.append(self._player.memory)
        outputs = self._player.step(inputs)
        self.after.append(self._player.memory)
        return outputs

    @property
    def memory(self) -> Arrays:
        return self._player.memory


class TwinDriver:
    """The original with every observation moved by a unit in the last place."""

    def __init__(self, live: Steppable, signature: Signature, seed: int) -> None:
        self._live = live
        self._signature = signature
        self._rng = np.random.default_rng(seed + 17)

    def reset(self, mask: Array | None = None) -> None:
        self._live.reset(mask)

    def step(self, inputs: Mapping[str, Array]) -> Arrays:
        return self._live.step(moved_inputs(self._signature, inputs, self._rng))

    @property
    def memory(self) -> Arrays:
        return self._live.memory


def make_envs(loop: ClosedLoop, signature: Signature, taken: list[Any]) -> EnvBatch:
    """As many environments as the policy has rows: episodes are played side by side.

    None of them may be among the `taken`, to which they are added.
    """
    rows = signature.fixed_rows or min(loop.episodes, MOST_ROWS)
    envs = [loop.make()]
    if not hasattr(envs[0], "single_observation_space"):
        envs += [loop.make() for _ in range(rows - 1)]
    taken += envs
    if len({id(each) for each in taken}) < len(taken):
        raise UsageError(
            "the function returns the same environment twice",
            where="env",
            hint="make a new one at each call: each row and each side plays in its own copy",
        )
    made = env_batch(envs, signature)
    if signature.fixed_rows not in (None, made.rows):
        raise UsageError(
            f"the policy takes {signature.fixed_rows} rows, the environment has {made.rows}",
            where="env",
            hint="pass a vectorised environment of that many rows",
        )
    return made


def played(
    player: Steppable, on: EnvBatch, loop: ClosedLoop, *, seed: int, noise: NoiseSource
) -> Play:
    """One episode of every row; of a player that is watched with its memory."""
    seen = list(turns(player, on, seed=seed, max_steps=loop.max_steps, completed=noise.added))
    returns = np.zeros(on.rows)
    for turn in seen:
        returns += turn.rewards
    return Play(
        inputs=stacked([turn.inputs for turn in seen]),
        resets=np.stack([turn.begins for turn in seen]),
        outputs=stacked([turn.outputs for turn in seen]),
        memory=stacked(player.before) if isinstance(player, Remembered) else {},
        next_memory=stacked(player.after) if isinstance(player, Remembered) else {},
        playing=np.stack([turn.playing for turn in seen]),
        returns=tuple(returns.tolist()),
    )
