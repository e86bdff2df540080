"""Two policies on the same observations: the numbers of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.errors import Finding, UsageError
from roadworthy.runtime.gym.batch import env_batch
from roadworthy.runtime.gym.closed_loop import ClosedLoop
from roadworthy.runtime.gym.play import MAX_STEPS, turns
from roadworthy.runtime.noise import NoiseSource
from roadworthy.runtime.policy import Policy
from roadworthy.show.influence import element_name
from roadworthy.spec.port import BATCH, Array, Port
from roadworthy.spec.run import Arrays, Run, stacked
from roadworthy.spec.signature import Signature

Env = str | Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PortGap:
    """How far two policies are apart on one output, on the same observations.

    equal   part of all steps in which the whole port is the same
    mean    mean distance of an element
    spread  how far the first policy moves the port by itself: its standard deviation
    worst   the largest distance, at `step` and `element`, with both values
    """

    port: str
    equal: float
    mean: float
    spread: float
    worst: float
    step: int
    element: str
    values: tuple[float, float]

    @property
    def share(self) -> float:
        """The mean distance as a part of the port's own movement."""
        return self.mean / self.spread if self.spread > 0 else (1.0 if self.mean else 0.0)


def refuse_other_signature(one: Signature, other: Signature) -> None:
    """An error that lists every difference between two signatures; memory is each one's own."""
    problems = [
        *_port_problems("input", one.inputs, other.inputs),
        *_port_problems("output", one.outputs, other.outputs),
        *(
            Finding(code="RW001", where=name, what=f"the first has {theirs}, the second {ours}")
            for name, theirs, ours in (
                ("action", one.action, other.action),
                ("period_s", one.period_s, other.period_s),
                ("decimation", one.decimation, other.decimation),
            )
            if theirs != ours
        ),
    ]
    if problems:
        hint = "compare two exports of one interface: the same ports, action and period"
        last = Finding(
            code="RW001", what="the signatures differ, so nothing can be compared", hint=hint
        )
        raise UsageError(findings=[*problems, last])


def _port_problems(kind: str, one: Sequence[Port], other: Sequence[Port]) -> Iterator[Finding]:
    mine, theirs = ({port.name: port for port in each} for each in (one, other))
    for name in {**mine, **theirs}:
        if name not in theirs or name not in mine:
            which = "second" if name in mine else "first"
            yield Finding(code="RW001", where=name, what=f"the {which} has no {kind} of this name")
        elif (mine[name].dtype, mine[name].shape) != (theirs[name].dtype, theirs[name].shape):
            what = f"the {kind} is {mine[name]} in the first and {theirs[name]} in the second"
            yield Finding(code="RW001", where=name, what=what)


def port_gaps(signature: Signature, one: Arrays, other: Arrays) -> tuple[PortGap, ...]:
    """One row for each output: port → (steps, rows, …) of both sides."""
    return tuple(_gap(port, one[port.name], other[port.name]) for port in signature.outputs)


def _gap(port: Port, one: Array, other: Array) -> PortGap:
    steps = len(one)
    a, b = (each.astype(np.float64).reshape(steps, -1) for each in (one, other))
    distance = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    distance = np.nan_to_num(distance, nan=np.inf)
    place = int(np.argmax(distance))
    step, inside = divmod(place, a.shape[1])
    row = max(1, int(np.prod([dim for dim in port.shape if isinstance(dim, int)])))
    return PortGap(
        port=port.name,
        equal=float((distance.reshape(-1, row) == 0).all(axis=1).mean()),
        mean=float(distance.mean()),
        spread=float(np.where(np.isfinite(a), a, 0.0).std()),
        worst=float(distance.flat[place]),
        step=step,
        element=element_name(port, inside % row) if BATCH in port.shape else port.name,
        values=(float(a.flat[place]), float(b.flat[place])),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drive:
    """Episodes that one policy drove: what it saw, and what each earned."""

    run: Run
    returns: tuple[float, ...]


def driven(policy: Policy, env: Env, episodes: int, *, seed: int) -> Drive:
    """Episodes of one row, one after the other; noise is drawn from the seed of the episode."""
    signature = policy.signature
    envs = env_batch([ClosedLoop(env).make()], signature)
    seen: list[Arrays] = []
    begins: list[Array] = []
    returns: list[float] = []
    try:
        for episode in range(episodes):
            noise = NoiseSource(signature, seed + episode)
            total = 0.0
            for turn in turns(
                policy, envs, seed=seed + episode, max_steps=MAX_STEPS, completed=noise.added
            ):
                seen.append(turn.inputs)
                begins.append(turn.begins)
                total += float(turn.rewards[0])
            returns.append(total)
    finally:
        envs.close()
    policy.reset()
    run = Run(inputs=stacked(seen), resets=np.stack(begins))
    return Drive(run=run, returns=tuple(returns))
