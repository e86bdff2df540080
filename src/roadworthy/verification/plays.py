"""Plays: one episode of every row, driven by the original, by an artifact, or by a twin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from roadworthy.envs.batch import EnvBatch, env_batch
from roadworthy.envs.closed_loop import ClosedLoop
from roadworthy.envs.play import turns
from roadworthy.errors import UsageError
from roadworthy.runtime.noise import NoiseSource
from roadworthy.runtime.policy import Policy
from roadworthy.spec.port import Array
from roadworthy.spec.signature import Signature
from roadworthy.spec.stepping import Arrays, Script, Steppable
from roadworthy.verification.states import with_memory
from roadworthy.verification.twins import moved_inputs

# Episodes that are played side by side: enough to keep both sides busy, few enough for memory.
MOST_ROWS = 32


@dataclass(slots=True, eq=False)
class Play:
    """What happened from one seed: inputs and outputs of every step, a return for every row."""

    inputs: list[dict[str, Array]] = field(default_factory=list)
    outputs: list[dict[str, Array]] = field(default_factory=list)
    followed: list[dict[str, Array]] = field(default_factory=list)
    memory: list[dict[str, Array]] = field(default_factory=list)
    after: list[dict[str, Array]] = field(default_factory=list)
    begins: list[Array] = field(default_factory=list)
    playing: list[Array] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)

    def stacked(self, name: str, steps: int | None = None) -> dict[str, Array]:
        """Port → (steps, rows, …)."""
        each_step = getattr(self, name)[:steps]
        return {port: np.stack([each[port] for each in each_step]) for port in each_step[0]}

    @property
    def script(self) -> Script:
        """What the player was put through."""
        return Script(inputs=self.stacked("inputs"), resets=np.stack(self.begins))

    @property
    def alive(self) -> Array:
        """(steps, rows): where the first episode of the row was still going on."""
        return np.stack(self.playing)


class Watched:
    """The original while it drives, and the artifact that follows without being obeyed."""

    def __init__(self, live: Steppable, follower: Policy, *, take_over: bool) -> None:
        self._live = live
        self._follower = follower
        self._take_over = take_over
        self.before: Arrays = {}
        self.followed: Arrays = {}

    def reset(self, mask: Array | None = None) -> None:
        self._live.reset(mask)
        self._follower.reset(mask)

    def step(self, inputs: Mapping[str, Array]) -> Arrays:
        self.before = self._live.memory
        if self._take_over and self.before:
            self._follower.set_memory(self.before)
        self.followed = with_memory(self._follower.step(inputs), self._follower.memory)
        return self._live.step(inputs)

    @property
    def memory(self) -> Arrays:
        return self._live.memory


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
    """One episode of every row, and what a follower did in it."""
    done = Play()
    returns = np.zeros(on.rows)
    for turn in turns(player, on, seed=seed, max_steps=loop.max_steps, completed=noise.added):
        done.inputs.append(turn.inputs)
        done.outputs.append(turn.outputs)
        done.begins.append(turn.begins)
        done.playing.append(turn.playing)
        returns += turn.rewards
        if isinstance(player, Watched):
            done.memory.append(player.before)
            done.after.append(player.memory)
            done.followed.append(player.followed)
    done.returns = returns.tolist()
    return done
