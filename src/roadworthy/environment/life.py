"""A life of an environment, written down: what every tick had and gave, and how episodes began.

The environment follows its own actor, so nothing that an artifact does changes it. What one life
showed therefore serves the search for hidden inputs and the check of every artifact alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from roadworthy.environment.source import ACTIONS, Tensors, observed_ports
from roadworthy.environment.ticks import Decision, LiveRun, Tick

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
