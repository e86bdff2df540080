"""`play`: episodes of a policy in an environment, and the loop that every play is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.errors import UsageError
from roadworthy.errors.unforeseen import answers
from roadworthy.runtime.gym.batch import EnvBatch, env_batch
from roadworthy.runtime.gym.closed_loop import ClosedLoop
from roadworthy.runtime.policy import Policy
from roadworthy.spec.port import Array
from roadworthy.spec.run import Arrays, Steppable, reset_rows

MAX_STEPS = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """One step of every row: what was seen and done, and what it brought.

    `begins` are the rows that were reset before it, `playing` those whose first episode goes on.
    """

    inputs: Arrays
    outputs: Arrays
    begins: Array
    playing: Array
    rewards: Array


def turns(
    player: Steppable,
    envs: EnvBatch,
    *,
    seed: int,
    max_steps: int,
    completed: Callable[[Arrays], Arrays] = dict,
) -> Iterator[Turn]:
    """The first episode of every row, turn by turn; `completed` adds what no environment gives."""
    inputs = completed(envs.reset(seed))
    begins, playing = np.ones(envs.rows, dtype=bool), np.ones(envs.rows, dtype=bool)
    for _ in range(max_steps):
        reset_rows(player, begins)
        outputs = player.step(inputs)
        after = envs.step(outputs[envs.action])
        rewards = np.where(playing, after.rewards, 0.0)
        yield Turn(inputs, outputs, begins, playing, rewards)
        playing = playing & ~after.ended
        if not playing.any():
            return
        inputs, begins = completed(after.inputs), after.begins


@dataclass(frozen=True, slots=True)
class Episodes:
    """What a policy earned in each episode, and how many steps it lasted."""

    returns: tuple[float, ...]
    steps: tuple[int, ...]

    @property
    def mean_return(self) -> float:
        """The mean over all episodes."""
        return float(np.mean(self.returns))

    def __str__(self) -> str:
        spread = float(np.std(self.returns))
        return f"mean return {self.mean_return:.1f} ± {spread:.1f} in {len(self.returns)} episodes"


@answers
def play(
    policy: Policy,
    env: str | Callable[[], Any],
    episodes: int = 5,
    *,
    seed: int = 0,
    max_steps: int = MAX_STEPS,
    progress: Callable[[str], None] | None = None,
) -> Episodes:
    """The returns and lengths of some episodes in a Gymnasium environment. Needs no PyTorch.

    `env` is a Gymnasium id or a function that makes an environment; the first episode has the
    seed `seed`, the next one more each.
    """
    if episodes < 1:
        raise UsageError(f"episodes must be at least 1, got {episodes}")
    say = progress or (lambda stage: None)
    envs = env_batch([ClosedLoop(env).make()], policy.signature)
    returns, steps = [], []
    try:
        for episode in range(episodes):
            say(f"episode {episode + 1} of {episodes}")
            rewards = [
                turn.rewards[0]
                for turn in turns(policy, envs, seed=seed + episode, max_steps=max_steps)
            ]
            returns.append(float(sum(rewards)))
            steps.append(len(rewards))
    finally:
        envs.close()
    return Episodes(tuple(returns), tuple(steps))
