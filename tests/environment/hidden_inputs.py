"""Hidden inputs that are easily taken for constants."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from roadworthy.environment import Input
from tests.environment.mistakes import Sound
from tests.environment.robot import wave


class Extra(Sound):
    """One more value in the observations that nobody registered."""

    def extra(self) -> Tensor:
        raise NotImplementedError

    def compute_observations(self) -> Tensor:
        return torch.cat([super().compute_observations(), self.extra()], dim=-1)


class RareCommand(Extra):
    """A command that is drawn anew every eighth step."""

    def build(self) -> None:
        super().build()
        self.command = torch.zeros(1, 2)

    def world(self) -> None:
        super().world()
        if self.age % 8 == 0:
            self.command[:] = wave(self.age, 1, 2)

    def extra(self) -> Tensor:
        return self.command * 1.0


class GatedCommand(Extra):
    """A command that counts only while a registered gate is open; at first it is shut."""

    def build(self) -> None:
        super().build()
        self.command, self.gate = torch.zeros(1, 2), torch.zeros(1, 1)
        self.context_manager().add_component(Input("gate", lambda: self.gate))

    def world(self) -> None:
        super().world()
        self.command[:] = wave(self.age, 1, 2)
        self.gate[:] = float(self.age >= 3)

    def extra(self) -> Tensor:
        return self.command * self.gate


class CommandOfTheEpisode(Extra):
    """A command that is drawn when an episode begins."""

    def build(self) -> None:
        super().build()
        self.command, self.episodes = torch.zeros(1, 2), 0

    def begin(self) -> None:
        super().begin()
        self.episodes += 1
        self.command[:] = wave(self.episodes, 1, 2)

    def extra(self) -> Tensor:
        return self.command * 1.0


class GaitPhase(Extra):
    """A phase in turns: one more turn is the same place."""

    def build(self) -> None:
        super().build()
        self.phase = torch.zeros(1, 1)

    def world(self) -> None:
        super().world()
        self.phase[:] = (self.phase + 0.03) % 1.0

    def extra(self) -> Tensor:
        return torch.sin(2 * math.pi * self.phase)


class GaitPhaseNumber(Extra):
    def build(self) -> None:
        super().build()
        self.phase = 0.0

    def world(self) -> None:
        super().world()
        self.phase = (self.phase + 0.03) % 1.0

    def extra(self) -> Tensor:
        return torch.full((1, 1), math.sin(2 * math.pi * self.phase))


class EveryFifthStep(Extra):
    """A Python counter that decides when a value is held; caught in the middle of its period."""

    def build(self) -> None:
        super().build()
        self.counter = 2

    def process_actions(self, actions: Tensor) -> None:
        super().process_actions(actions)
        self.counter += 1

    def extra(self) -> Tensor:
        return torch.full((1, 1), float(self.counter % 5 == 0))


class NumpyState(Extra):
    def build(self) -> None:
        super().build()
        self.scan = np.zeros((1, 2), dtype=np.float32)

    def world(self) -> None:
        super().world()
        self.scan[:] = wave(self.age, 1, 2).numpy()

    def extra(self) -> Tensor:
        return torch.from_numpy(self.scan) * 1.0


class NumpyNumber(Extra):
    def build(self) -> None:
        super().build()
        self.height = np.float32(0.0)

    def world(self) -> None:
        super().world()
        self.height = self.height + np.float32(0.01)

    def extra(self) -> Tensor:
        return torch.full((1, 1), float(self.height))


class Closure(Extra):
    """An observation term that holds its tensor where no attribute leads."""

    def build(self) -> None:
        super().build()
        self.term, self.move = _term()

    def world(self) -> None:
        super().world()
        self.move(self.age)

    def extra(self) -> Tensor:
        return self.term()


def _term() -> tuple[Callable[[], Tensor], Callable[[int], None]]:
    held = torch.zeros(1, 2)

    def read() -> Tensor:
        return held * 1.0

    def move(age: int) -> None:
        held[:] = wave(age, 1, 2)

    return read, move


DISGUISED: dict[type[Extra], str] = {
    RareCommand: "env.command",
    GatedCommand: "env.command",
    CommandOfTheEpisode: "env.command",
    GaitPhase: "env.phase",
    GaitPhaseNumber: "env.phase",
    EveryFifthStep: "env.counter",
    NumpyNumber: "env.height",
    Closure: "hidden_inputs.py",
}


class Bookkeeping(Sound):
    """Statistics that move, and that nothing depends on."""

    def build(self) -> None:
        super().build()
        self.log: dict[str, float] = {"reward": 0.0, "length": 0}
        self.rows = np.zeros(3)

    def process_actions(self, actions: Tensor) -> None:
        super().process_actions(actions)
        self.log["reward"] += 0.5
        self.log["length"] += 1
        self.rows += 1.0


class DottedBookkeeping(Bookkeeping):
    def build(self) -> None:
        super().build()
        self.log["reward.track"] = 0.0

    def process_actions(self, actions: Tensor) -> None:
        super().process_actions(actions)
        self.log["reward.track"] += 0.5


class ListedBookkeeping(Bookkeeping):
    def build(self) -> None:
        super().build()
        self.sums = [0.0, 0.0]

    def process_actions(self, actions: Tensor) -> None:
        super().process_actions(actions)
        self.sums[0] += 1.0


BOOKKEEPING = (Bookkeeping, DottedBookkeeping, ListedBookkeeping)
