"""A life of an environment, written down: what every tick had and gave, and how episodes began.

The environment follows its own actor, so nothing that an artifact does changes it. What one life
showed therefore serves the search for hidden inputs and the check of every artifact alike.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np

from roadworthy.environment.source import ACTIONS, Tensors, observed_ports
from roadworthy.environment.ticks import Decision, LiveRun, Tick
from roadworthy.spec.port import Array
from roadworthy.spec.run import Arrays, Run, Values, results, stacked

LEAST_STEPS = 64


@dataclass(frozen=True, slots=True, eq=False)
class LivedStep:
    """One policy step: what it began with, what was decided, its ticks; `begins` an episode."""

    begins: bool
    inputs: Tensors
    decided: Tensors
    ticks: list[Tick]


@dataclass(slots=True, eq=False)
class Life:
    """The steps of a life, one after the other.

    starts    the memory with which each episode began, and the step before which it did
    followed  whether the environment showed its ticks
    """

    starts: list[tuple[int, Tensors]] = field(default_factory=list)
    steps: list[LivedStep] = field(default_factory=list)
    followed: bool = False

    def restart(self, live: LiveRun) -> None:
        """Adds the beginning of an episode."""
        live.restart()
        self.starts.append((len(self.steps), live.memory()))

    def step(self, live: LiveRun) -> tuple[Decision, list[Tick], bool]:
        """Adds a step: what it began with, its ticks, and whether the environment was reset."""
        begins = bool(self.starts) and self.starts[-1][0] == len(self.steps)
        decision, actions = live.decide()
        decided = {ACTIONS: actions.clone()} | observed_ports(decision.observations)
        ticks, _, was_reset = live.step(actions)
        self.steps.append(LivedStep(begins, decision.inputs, decided, ticks))
        self.followed = bool(live.followed)
        return decision, ticks, was_reset

    def script(self, names: Collection[str], rows: int) -> tuple[Run, Array]:
        """Its ticks as a run, with the inputs of these names; and the step of each tick."""
        starts = dict(self.starts)
        seen = [(step.ticks[tick] if tick else step).inputs for _, tick, step in self._ticks()]
        inputs = [arrays({name: each[name] for name in each if name in names}) for each in seen]
        begins = [at in starts and not tick for at, tick, _ in self._ticks()]
        resets = np.repeat(np.array(begins)[:, None], rows, axis=1)
        numbers = np.array([at for at, *_ in self._ticks()])
        return Run(inputs=stacked(inputs), resets=resets), numbers

    def results(self, others: Values) -> Values:
        """What its ticks gave and remembered, in columns.

        Between two decisions it decides nothing: there stands what `others` gave.
        """
        found = []
        for _, tick, step in self._ticks():
            seen = step.ticks[tick]
            given = arrays(seen.outputs if tick else step.decided | seen.outputs)
            found.append(results(given, arrays(seen.memory)))
        for name, first in found[0].items():
            other = others[name]
            fits = other.shape[1:] == first.shape  # else the comparison says so
            for at, each in enumerate(found):
                each.setdefault(name, other[at] if fits else first)
        return {name: np.stack([each[name] for each in found]) for name in found[0]}

    def _ticks(self) -> Iterator[tuple[int, int, LivedStep]]:
        """The number of a step, that of a tick in it, and the step."""
        for at, step in enumerate(self.steps):
            for tick in range(len(step.ticks)):
                yield at, tick, step


def arrays(tensors: Tensors) -> Arrays:
    """Tensors of any device as NumPy's."""
    return {name: value.detach().cpu().numpy() for name, value in tensors.items()}
