"""Environments that must not be exported as they are, each wrong in one way."""

from __future__ import annotations

import inspect
from pathlib import Path

import torch
from torch import Tensor

from roadworthy.environment import Input, Memory, Output
from tests.environment.robot import Robot, wave


def line(kind: type[Robot], code: str) -> str:
    """`mistakes.py:12 (code)`: where `code` stands in the source of `kind`."""
    lines, first = inspect.getsourcelines(kind)
    (offset,) = [index for index, text in enumerate(lines) if text.strip() == code]
    return f"{Path(__file__).name}:{first + offset} ({code})"


class DataSource:
    def __init__(self) -> None:
        self.foo, self.bar = torch.zeros(1, 2), torch.zeros(1, 2)


class Inner:
    """The environment inside the adapter, with its state one level deeper."""

    def __init__(self) -> None:
        self._data_source = DataSource()
        self.last, self.command = torch.zeros(1, 2), torch.zeros(1, 2)

    @property
    def data_source(self) -> DataSource:
        return self._data_source


class Sound(Robot):
    """Nothing is wrong here: the others differ from it."""

    def build(self) -> None:
        self._env = Inner()
        self.register()

    @property
    def env(self) -> Inner:
        return self._env

    def register(self) -> None:
        self.add(Input("foo", lambda: self.env.data_source.foo))
        self.add(Input("bar", lambda: self.env.data_source.bar))
        self.add(Memory("last", lambda: self.env.last))
        self.add(Output("command", lambda: self.env.command))

    def add(self, component: Input | Output) -> None:
        self.context_manager().add_component(component)

    def begin(self) -> None:
        self.env.data_source.foo[:] = 0.1
        self.env.data_source.bar[:] = 0.2
        self.env.last[:] = 0.0

    def world(self) -> None:
        self.env.data_source.foo[:] = wave(self.age, 1, 2)
        self.env.data_source.bar[:] = wave(self.age + 4, 1, 2)

    def compute_observations(self) -> Tensor:
        source = self.env.data_source
        doubled = source.bar * 2.0
        before = self.env.last * 1.0
        return torch.cat([source.foo, doubled, before], dim=-1)

    def process_actions(self, actions: Tensor) -> None:
        self.env.last[:] = actions

    def apply_actions(self) -> None:
        self.env.command[:] = 2.0 * self.env.last


class ForgottenInput(Sound):
    def register(self) -> None:
        self.add(Input("foo", lambda: self.env.data_source.foo))
        self.add(Memory("last", lambda: self.env.last))
        self.add(Output("command", lambda: self.env.command))


class ForgottenMemory(Sound):
    def register(self) -> None:
        self.add(Input("foo", lambda: self.env.data_source.foo))
        self.add(Input("bar", lambda: self.env.data_source.bar))
        self.add(Output("command", lambda: self.env.command))


class StepCounter(Sound):
    """A Python number that process_actions counts up, in the observations."""

    def build(self) -> None:
        super().build()
        self.counter = 0

    def begin(self) -> None:
        super().begin()
        self.counter = 0

    def compute_observations(self) -> Tensor:
        return super().compute_observations() + 0.01 * self.counter

    def process_actions(self, actions: Tensor) -> None:
        super().process_actions(actions)
        self.counter += 1


class NeverReset(StepCounter):
    """A registered number that goes on counting when an episode ends."""

    def register(self) -> None:
        super().register()
        self.add(Memory("counter", lambda: self.counter))

    def begin(self) -> None:
        Sound.begin(self)


class CountingBranch(StepCounter):
    """A registered number that decides which way the code goes."""

    def register(self) -> None:
        super().register()
        self.add(Memory("counter", lambda: self.counter))

    def compute_observations(self) -> Tensor:
        if self.counter > 5:
            return super().compute_observations() * 2.0
        return super().compute_observations()


class Phase(Sound):
    """A Python number that the simulation moves, in the observations."""

    def build(self) -> None:
        super().build()
        self.phase_s = 0.0

    def world(self) -> None:
        super().world()
        self.phase_s += 0.02

    def compute_observations(self) -> Tensor:
        return super().compute_observations() + self.phase_s


class PointerHistory(Sound):
    """A ring buffer whose place is a Python number."""

    def build(self) -> None:
        self.ring, self.pointer = torch.zeros(1, 3, 2), 0
        super().build()

    def register(self) -> None:
        super().register()
        self.add(Memory("ring", lambda: self.ring))

    def begin(self) -> None:
        super().begin()
        self.ring[:], self.pointer = 0.0, 0

    def compute_observations(self) -> Tensor:
        return torch.cat([super().compute_observations(), self.ring.flatten(1)], dim=-1)

    def process_actions(self, actions: Tensor) -> None:
        super().process_actions(actions)
        self.ring[:, self.pointer] = actions
        self.pointer = (self.pointer + 1) % 3


class Everything(StepCounter, Phase):
    """A forgotten input, a forgotten memory, a counter and a phase at once."""

    def register(self) -> None:
        self.add(Input("foo", lambda: self.env.data_source.foo))
        self.add(Output("command", lambda: self.env.command))


class Noise(Sound):
    def compute_observations(self) -> Tensor:
        clean = super().compute_observations()
        return clean + 0.1 * torch.randn_like(clean)


class Branch(Sound):
    def compute_observations(self) -> Tensor:
        if self.env.data_source.foo.sum() > 0:
            return super().compute_observations()
        return -super().compute_observations()


class Harmless(Sound):
    """An episode length, a cache and a log that move, and that nothing depends on."""

    def build(self) -> None:
        super().build()
        self.length, self.cache = 0, torch.zeros(1, 2)
        self.reward_sum, self.seen = 0.0, []

    def compute_observations(self) -> Tensor:
        self.cache = self.env.data_source.foo * 2.0
        return super().compute_observations()

    def process_actions(self, actions: Tensor) -> None:
        super().process_actions(actions)
        self.length += 1
        self.cache += 1.0

    def world(self) -> None:
        super().world()
        self.reward_sum += 0.5
        self.seen.append(self.length)
