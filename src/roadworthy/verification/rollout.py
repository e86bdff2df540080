"""Closed loop: the original and the artifact play the same episodes of a Gymnasium environment.

First the original drives, and the artifact takes each step from the state that the original is in;
then the artifact drives a copy of the environment from the same seeds, with a memory of its own.
Where the two part, the original's own twin plays as well: what it does is no artifact's fault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from roadworthy.runtime.gym.batch import EnvBatch
from roadworthy.runtime.gym.closed_loop import ClosedLoop
from roadworthy.runtime.gym.returns import compare_returns
from roadworthy.runtime.noise import NoiseSource
from roadworthy.runtime.policy import Policy
from roadworthy.spec.certificate import Check
from roadworthy.spec.port import Array
from roadworthy.spec.run import Key, Run, Steppable, Values, record_free, retrace
from roadworthy.spec.signature import Signature
from roadworthy.verification.close_logits import tied_steps
from roadworthy.verification.comparison import Comparison
from roadworthy.verification.judging import Judge
from roadworthy.verification.originals.original import Original, Yardstick
from roadworthy.verification.plays import Play, Remembered, TwinDriver, make_envs, played
from roadworthy.verification.states import Index, StateLayout


def closed_loop(
    new: Callable[[], Policy],
    original: Original,
    loop: ClosedLoop,
    *,
    seed: int,
    progress: Callable[[str], None],
    yardstick: Yardstick | None = None,
) -> list[Check]:
    """The checks `teacher` (the original drives) and `closed loop` (the artifact drives)."""
    policy, follower = new(), new()
    signature = policy.signature
    taken: list[Any] = []
    theirs, ours = (make_envs(loop, signature, taken) for _ in range(2))
    try:
        with original.open(signature, rows=theirs.rows) as live:

            def plays(player: Steppable, on: EnvBatch, what: str) -> list[Play]:
                found = []
                for first in range(0, loop.episodes, theirs.rows):
                    progress(f"playing episodes {first + 1} to {first + theirs.rows}{what}")
                    # All sides of a policy that draws are given the same noise.
                    noise = NoiseSource(signature, seed + first)
                    watched = Remembered(player) if player is live else player
                    found.append(played(watched, on, loop, seed=seed + first, noise=noise))
                return found

            originals = plays(live, theirs, "")
            artifacts = plays(policy, ours, ", the artifact driving")
            together = _together(originals, artifacts, signature)
            twins = None
            if not together.passed:
                twin = TwinDriver(live, signature, seed)
                twins = plays(twin, theirs, ", the original's twin driving")
    finally:
        theirs.close()
        ours.close()
    # What follows is not obeyed: it goes through the same steps afterwards.
    follow = record_free if yardstick is None else retrace
    beside = [(play, follow(follower, play)) for play in originals]
    teacher = _teacher(beside, original, signature, loop, yardstick, seed)
    return [teacher, _closed(originals, artifacts, twins, together, loop, seed=seed)]


def _teacher(
    plays: list[tuple[Play, Run]],
    original: Original,
    signature: Signature,
    loop: ClosedLoop,
    yardstick: Yardstick | None,
    seed: int,
) -> Check:
    """The check of plays of the original, and of what the artifact gave beside each of them."""
    comparison = Comparison(signature)
    facts: dict[str, Any] = {"measured": False}
    ties = step = 0
    for play, followed in plays:
        expected, got = play.outputs, followed.results
        action = signature.action_output
        forgiven = np.zeros(play.playing.shape, dtype=bool)
        if yardstick is None or loop.tie_margin is not None:
            forgiven = tied_steps(
                original, signature, play, expected[action], got[action], loop.tie_margin
            )
            got[action] = _where(forgiven, expected[action], got[action])
        ties += int((forgiven & play.playing).sum())
        if yardstick is None:
            numbers, count = step + np.arange(play.steps), int(play.playing.sum())
            comparison.add_steps(expected, got, numbers=numbers, count=count)
        else:
            facts = _judge(play, got, signature, yardstick, comparison, step, seed)
        step += play.steps
    ties += comparison.ties
    counted = f", {ties} ties within the margin" if ties else ""
    driven = f"{_episodes([play for play, _ in plays])} that the original drives"
    claim = f"the artifact gives the original's outputs in {driven}{counted}"
    return comparison.check("teacher", claim, facts | {"ties": ties})


def _judge(
    play: Play,
    got: Values,
    signature: Signature,
    yardstick: Yardstick,
    comparison: Comparison,
    first: int,
    seed: int,
) -> dict[str, Any]:
    """What is said of one play, each step of which was taken from the original's own state."""
    layout = StateLayout(signature)
    judge = Judge.at(yardstick, layout, layout.states(play), layout.results(play), seed)
    joined = layout.flat(got)
    comparison.refuse_other_shapes(judge.original, joined)
    locate = layout.locator([play])

    def later(port: Key, state: int, inside: Index) -> tuple[int, Index]:
        step, index = locate(port, state, inside)
        return first + step, index

    count = int(play.playing.sum())
    comparison.add_judged(judge.judged(joined), joined, later, count=count)
    return judge.facts(comparison.worst, comparison.ties)


def _together(originals: list[Play], artifacts: list[Play], signature: Signature) -> Comparison:
    """The plays of both sides step by step; it fails where they part."""
    comparison = Comparison(signature)
    step = 0
    for theirs, ours in zip(originals, artifacts, strict=True):
        both = min(theirs.steps, ours.steps)
        ended = ~(theirs.playing[:both] & ours.playing[:both])
        expected, got = (
            {name: each[:both] for name, each in (*run.inputs.items(), *run.outputs.items())}
            for run in (theirs, ours)
        )
        got = {port: _where(ended, expected[port], got[port]) for port in got}
        numbers, count = step + np.arange(both), int((~ended).sum())
        comparison.add_steps(expected, got, numbers=numbers, count=count)
        lengths, others = (each.playing.sum(axis=0) for each in (theirs, ours))
        if not np.array_equal(lengths, others):
            comparison.add(step, {"episode length": lengths}, {"episode length": others})
        step += both
    return comparison


def _closed(
    originals: list[Play],
    artifacts: list[Play],
    twins: list[Play] | None,
    together: Comparison,
    loop: ClosedLoop,
    *,
    seed: int,
) -> Check:
    """Step by step where the two plays stay together, by their returns where they part."""
    earned = compare_returns(
        _returns(originals),
        _returns(artifacts),
        margin=loop.margin,
        seed=seed,
        twin=None if twins is None else _returns(twins),
    )
    facts = {
        "mode": "step by step" if twins is None else "returns",
        "returns": earned.to_json(),
        "each_return": {"original": _returns(originals), "artifact": _returns(artifacts)},
    }
    if twins is None:
        claim = f"{_episodes(artifacts)} that the artifact drives are those of the original"
        return together.check("closed loop", claim, facts)
    return Check(
        name="closed loop",
        claim=f"the artifact {earned.verdict}: {earned}",
        passed=not earned.differs,
        steps=together.steps,
        facts=facts,
    )


def _returns(plays: list[Play]) -> list[float]:
    return [each for play in plays for each in play.returns]


def _where(mask: Array, one: Array, other: Array) -> Array:
    """The values of one side where the mask, (steps, rows), is true, of the other elsewhere."""
    return np.where(mask.reshape(*mask.shape, *(1,) * (one.ndim - mask.ndim)), one, other)


def _episodes(plays: list[Play]) -> str:
    count = sum(len(each.returns) for each in plays)
    return f"{count} episodes" if count > 1 else "one episode"
