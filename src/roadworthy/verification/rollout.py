"""Closed loop: the original and the artifact play the same episodes of a Gymnasium environment.

Twice: first the original drives and the artifact follows with a memory of its own, then the
artifact drives a copy of the environment from the same seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from roadworthy.errors import UsageError
from roadworthy.runtime.noise import NoiseSource
from roadworthy.runtime.policy import Policy
from roadworthy.spec.port import Array
from roadworthy.spec.signature import Signature
from roadworthy.verification.certificate import Check
from roadworthy.verification.compare import Comparison
from roadworthy.verification.ties import tied_steps
from roadworthy.worlds.returns import compare_returns
from roadworthy.worlds.stage import Stage, stage
from roadworthy.worlds.world import World

# Episodes that are played side by side: enough to keep both sides busy, few enough for memory.
MOST_ROWS = 32


class Player(Protocol):
    """What can be reset, row by row, and stepped: the original or the artifact."""

    def reset(self, mask: Array | None = None) -> None: ...

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]: ...


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
    def alive(self) -> Array:
        """(steps, rows): where the first episode of the row was still going on."""
        return np.stack(self.playing)


def closed_loop(
    new: Callable[[], Policy],
    subject: Any,
    world: World,
    *,
    seed: int,
    progress: Callable[[str], None],
) -> list[Check]:
    """The checks `teacher` (the original drives) and `closed loop` (the artifact drives)."""
    policy, follower = new(), new()
    signature = policy.signature
    taken: list[Any] = []
    theirs, ours = (_stage(world, signature, taken) for _ in range(2))
    originals, artifacts = [], []
    try:
        with subject.original(signature, rows=theirs.rows) as live:
            for first in range(0, world.episodes, theirs.rows):
                progress(f"playing episodes {first + 1} to {first + theirs.rows}")
                start = seed + first
                # Both sides of a policy that draws are given the same noise.
                noise = [NoiseSource(signature, start) for _ in range(2)]
                played = play(live, theirs, world, seed=start, noise=noise[0], follower=follower)
                originals.append(played)
                artifacts.append(play(policy, ours, world, seed=start, noise=noise[1]))
    finally:
        theirs.close()
        ours.close()
    teacher = _teacher(originals, subject, signature, world)
    return [teacher, _closed(originals, artifacts, signature, world, seed=seed)]


def _stage(world: World, signature: Signature, taken: list[Any]) -> Stage:
    """As many environments as the policy has rows: episodes are played side by side.

    None of them may be among the `taken`, to which they are added.
    """
    rows = signature.fixed_rows or min(world.episodes, MOST_ROWS)
    envs = [world.make()]
    if not hasattr(envs[0], "single_observation_space"):
        envs += [world.make() for _ in range(rows - 1)]
    taken += envs
    if len({id(each) for each in taken}) < len(taken):
        raise UsageError(
            "the function returns the same environment twice",
            where="env",
            hint="make a new one at each call: each row and each side plays in its own copy",
        )
    made = stage(envs, signature)
    if signature.fixed_rows not in (None, made.rows):
        raise UsageError(
            f"the policy takes {signature.fixed_rows} rows, the environment has {made.rows}",
            where="env",
            hint="pass a vectorised environment of that many rows",
        )
    return made


def play(
    player: Player,
    on: Stage,
    world: World,
    *,
    seed: int,
    noise: NoiseSource,
    follower: Player | None = None,
) -> Play:
    """One episode of every row; `follower` sees the same inputs without being obeyed."""
    done = Play()
    inputs = noise.added(on.reset(seed))
    begins, playing = np.ones(on.rows, dtype=bool), np.ones(on.rows, dtype=bool)
    returns = np.zeros(on.rows)
    for _ in range(world.max_steps):
        for each in (player, follower):
            if each is not None and begins.any():
                each.reset(begins)
        outputs = player.step(inputs)
        done.inputs.append(inputs)
        done.outputs.append(outputs)
        done.begins.append(begins)
        done.playing.append(playing)
        if follower is not None:
            done.followed.append(follower.step(inputs))
        scene = on.step(outputs[on.action])
        returns += np.where(playing, scene.rewards, 0.0)
        playing = playing & ~scene.ended
        if not playing.any():
            break
        inputs, begins = noise.added(scene.inputs), scene.begins
    done.returns = returns.tolist()
    return done


def _teacher(plays: list[Play], subject: Any, signature: Signature, world: World) -> Check:
    comparison = Comparison(signature)
    ties = step = 0
    for each in plays:
        expected, got = each.stacked("outputs"), each.stacked("followed")
        tied = tied_steps(subject, signature, each, world.tie_margin)
        ties += int((tied & each.alive).sum())
        got[signature.action_output] = _where(tied, expected, got, signature.action_output)
        comparison.add_steps(step, expected, got, count=int(each.alive.sum()))
        step += len(each.inputs)
    counted = f", {ties} ties within the margin" if ties else ""
    claim = f"the artifact follows {_episodes(plays)} that the original drives{counted}"
    return Check.of("teacher", claim, comparison, {"ties": ties})


def _closed(
    originals: list[Play],
    artifacts: list[Play],
    signature: Signature,
    world: World,
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
        margin=world.margin,
        seed=seed,
    )
    together = comparison.passed and not parted
    facts = {"mode": "step by step" if together else "returns", "returns": earned.to_json()}
    if together:
        claim = f"{_episodes(artifacts)} that the artifact drives are the same, step by step"
        return Check.of("closed loop", claim, comparison, facts)
    # Tiny differences grow in a chaotic world, and a random one never repeats itself.
    verdict = "earns no less than the original" if earned.not_inferior else "earned less"
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
