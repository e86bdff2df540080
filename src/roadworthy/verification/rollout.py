"""Closed loop: the original and the artifact play the same episodes of a Gymnasium environment.

Twice: first the original drives and the artifact follows with a memory of its own, then the
artifact drives a copy of the environment from the same seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from roadworthy.envs.batch import EnvBatch, env_batch
from roadworthy.envs.closed_loop import ClosedLoop
from roadworthy.envs.play import turns
from roadworthy.envs.returns import compare_returns
from roadworthy.errors import UsageError
from roadworthy.originals.original import Original
from roadworthy.runtime.noise import NoiseSource
from roadworthy.runtime.policy import Policy
from roadworthy.spec.certificate import Check
from roadworthy.spec.port import Array
from roadworthy.spec.signature import Signature
from roadworthy.spec.stepping import Script, Steppable, reset_rows
from roadworthy.verification.compare import Comparison
from roadworthy.verification.ties import tied_steps

# Episodes that are played side by side: enough to keep both sides busy, few enough for memory.
MOST_ROWS = 32


@dataclass(slots=True, eq=False)
class Play:
    """What happened from one seed: inputs and outputs of every step, a return for every row."""

    inputs: list[dict[str, Array]] = field(default_factory=list)
    outputs: list[dict[str, Array]] = field(default_factory=list)
    followed: list[dict[str, Array]] = field(default_factory=list)
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


def closed_loop(
    new: Callable[[], Policy],
    original: Original,
    loop: ClosedLoop,
    *,
    seed: int,
    progress: Callable[[str], None],
) -> list[Check]:
    """The checks `teacher` (the original drives) and `closed loop` (the artifact drives)."""
    policy, follower = new(), new()
    signature = policy.signature
    taken: list[Any] = []
    theirs, ours = (_envs(loop, signature, taken) for _ in range(2))
    originals, artifacts = [], []
    try:
        with original.open(signature, rows=theirs.rows) as live:
            for first in range(0, loop.episodes, theirs.rows):
                progress(f"playing episodes {first + 1} to {first + theirs.rows}")
                start = seed + first
                # Both sides of a policy that draws are given the same noise.
                noise = [NoiseSource(signature, start) for _ in range(2)]
                played = _played(live, theirs, loop, seed=start, noise=noise[0], follower=follower)
                originals.append(played)
                artifacts.append(_played(policy, ours, loop, seed=start, noise=noise[1]))
    finally:
        theirs.close()
        ours.close()
    teacher = _teacher(originals, original, signature, loop)
    return [teacher, _closed(originals, artifacts, signature, loop, seed=seed)]


def _envs(loop: ClosedLoop, signature: Signature, taken: list[Any]) -> EnvBatch:
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
            hint="make a new one at each call, env=lambda: gym.make(…): every row plays its own",
        )
    made = env_batch(envs, signature)
    if signature.fixed_rows not in (None, made.rows):
        raise UsageError(
            f"the policy takes {signature.fixed_rows} rows, the environment has {made.rows}",
            where="env",
            hint=f"pass one of {signature.fixed_rows} rows, or a function that makes a single one",
        )
    return made


def _played(
    player: Steppable,
    on: EnvBatch,
    loop: ClosedLoop,
    *,
    seed: int,
    noise: NoiseSource,
    follower: Steppable | None = None,
) -> Play:
    """One episode of every row; `follower` sees the same inputs without being obeyed."""
    done = Play()
    returns = np.zeros(on.rows)
    for turn in turns(player, on, seed=seed, max_steps=loop.max_steps, completed=noise.added):
        done.inputs.append(turn.inputs)
        done.outputs.append(turn.outputs)
        done.begins.append(turn.begins)
        done.playing.append(turn.playing)
        returns += turn.rewards
        if follower is not None:
            reset_rows(follower, turn.begins)
            done.followed.append(follower.step(turn.inputs))
    done.returns = returns.tolist()
    return done


def _teacher(
    plays: list[Play], original: Original, signature: Signature, loop: ClosedLoop
) -> Check:
    comparison = Comparison(signature)
    ties = step = 0
    for each in plays:
        expected, got = each.stacked("outputs"), each.stacked("followed")
        action = signature.action_output
        tied = tied_steps(
            original, signature, each.script, expected[action], got[action], loop.tie_margin
        )
        ties += int((tied & each.alive).sum())
        got[action] = _where(tied, expected, got, action)
        comparison.add_steps(step, expected, got, count=int(each.alive.sum()))
        step += len(each.inputs)
    counted = f", {ties} ties within the margin" if ties else ""
    driven = f"{_episodes(plays)} that the original drives"
    claim = f"the artifact gives the original's outputs in {driven}{counted}"
    return comparison.check("teacher", claim, {"ties": ties})


def _closed(
    originals: list[Play],
    artifacts: list[Play],
    signature: Signature,
    loop: ClosedLoop,
    *,
    seed: int,
) -> Check:
    """Step by step where the two plays stay together, by their returns where they part."""
    comparison = Comparison(signature)
    step = 0
    parted = False
    for theirs, ours in zip(originals, artifacts, strict=True):
        both = min(len(theirs.inputs), len(ours.inputs))
        ended = ~(theirs.alive[:both] & ours.alive[:both])
        expected = theirs.stacked("inputs", both) | theirs.stacked("outputs", both)
        got = ours.stacked("inputs", both) | ours.stacked("outputs", both)
        got = {port: _where(ended, expected, got, port) for port in got}
        comparison.add_steps(step, expected, got, count=int((~ended).sum()))
        parted |= not np.array_equal(theirs.alive.sum(axis=0), ours.alive.sum(axis=0))
        step += both
    earned = compare_returns(
        [each for play in originals for each in play.returns],
        [each for play in artifacts for each in play.returns],
        margin=loop.margin,
        seed=seed,
    )
    together = comparison.passed and not parted
    facts = {"mode": "step by step" if together else "returns", "returns": earned.to_json()}
    if together:
        claim = f"{_episodes(artifacts)} that the artifact drives are those of the original"
        return comparison.check("closed loop", claim, facts)
    # Tiny differences grow in a chaotic world, and a random one never repeats itself.
    verdict = f"earns {'no less' if earned.not_inferior else 'less'} than the original"
    return Check(
        name="closed loop",
        claim=f"the artifact {verdict}: {earned}",
        passed=earned.not_inferior,
        steps=comparison.steps,
        facts=facts,
    )


def _where(mask: Array, expected: dict[str, Array], got: dict[str, Array], port: str) -> Array:
    """The values of a port, with those of the original where the mask, (steps, rows), is true."""
    one, other = expected[port], got[port]
    return np.where(mask.reshape(*mask.shape, *(1,) * (one.ndim - mask.ndim)), one, other)


def _episodes(plays: list[Play]) -> str:
    count = sum(len(each.returns) for each in plays)
    return f"{count} episodes" if count > 1 else "one episode"
