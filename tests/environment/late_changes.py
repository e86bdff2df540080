"""Environments in which something moves late, rarely or by another cause than it seems."""

from __future__ import annotations

import itertools
import random
import time
from collections import deque

import numpy as np
import torch
from torch import Tensor

from roadworthy.environment import Input, Memory, Output
from tests.environment.mistakes import Sound
from tests.environment.robot import wave

_counted = {"calls": 0}


class Endless(Sound):
    """No episode ends by itself."""

    def step(self, actions: Tensor) -> tuple[Tensor, bool]:
        self.process_actions(actions)
        for _ in range(self.ticks()):
            self.apply_actions()
            self.age += 1
            self.world()
        return self.compute_observations(), False

    def ticks(self) -> int:
        return self.decimation


class LongDelay(Endless):
    """Commands that are a hundred steps late, in a queue that nobody registered."""

    length = 100

    def build(self) -> None:
        self.queue = torch.zeros(1, self.length, 2)
        super().build()

    def begin(self) -> None:
        super().begin()
        self.queue[:] = 0.0

    def process_actions(self, actions: Tensor) -> None:
        super().process_actions(actions)
        self.queue = torch.cat([self.queue[:, 1:], actions[:, None]], dim=1)

    def apply_actions(self) -> None:
        self.env.command[:] = self.queue[:, 0]


class DequeDelay(Endless):
    """The same with a deque, which is what most people write."""

    def build(self) -> None:
        self.queue: deque[Tensor] = deque([torch.zeros(1, 2)] * 100, maxlen=100)
        super().build()

    def process_actions(self, actions: Tensor) -> None:
        super().process_actions(actions)
        self.queue.append(actions.clone())

    def apply_actions(self) -> None:
        self.env.command[:] = self.queue[0]


class LateTerm(Endless):
    """A term that comes after a hundred steps."""

    after = 100

    def build(self) -> None:
        self.progress = 0
        super().build()

    def begin(self) -> None:
        super().begin()
        self.progress = 0

    def step(self, actions: Tensor) -> tuple[Tensor, bool]:
        self.progress += 1
        return super().step(actions)

    def compute_observations(self) -> Tensor:
        return super().compute_observations() + (0.5 if self.progress > self.after else 0.0)


class LateTermTensor(Endless):
    """The same, counted in a tensor."""

    def build(self) -> None:
        self.progress = torch.zeros(1, 1)
        super().build()

    def begin(self) -> None:
        super().begin()
        self.progress[:] = 0.0

    def process_actions(self, actions: Tensor) -> None:
        super().process_actions(actions)
        self.progress += 1.0

    def compute_observations(self) -> Tensor:
        late = torch.where(self.progress > 100.0, 0.5, 0.0)
        return super().compute_observations() + late


class RareCommand(Endless):
    """A command that is drawn anew every two hundred steps."""

    every = 200

    def build(self) -> None:
        self.wanted = torch.zeros(1, 6)
        super().build()

    def world(self) -> None:
        super().world()
        if self.age % self.every == 0:
            self.wanted = wave(self.age, 1, 6)

    def compute_observations(self) -> Tensor:
        return super().compute_observations() + self.wanted


class VeryRareCommand(RareCommand):
    every = 500


class TimedCommand(RareCommand):
    """A command that lives for ten seconds: no number in the code tells how many steps that is."""

    def build(self) -> None:
        self.left_s = 40.0
        super().build()

    def world(self) -> None:
        Sound.world(self)
        self.left_s -= 0.005
        if self.left_s <= 0.0:
            self.resample()

    def resample(self) -> None:
        self.left_s = 40.0
        self.wanted[:] = wave(self.age, 1, 6)


class LateGain(Endless):
    """A gain that changes at step 150, set by the world."""

    def build(self) -> None:
        self.gain, self.steps = 1.0, 0
        super().build()

    def step(self, actions: Tensor) -> tuple[Tensor, bool]:
        self.steps += 1
        if self.steps == 150:
            self.gain = 0.5
        return super().step(actions)

    def apply_actions(self) -> None:
        self.env.command[:] = self.gain * self.env.last


class LateGainTensor(LateGain):
    def build(self) -> None:
        super().build()
        self.gain = torch.ones(1, 1)

    def step(self, actions: Tensor) -> tuple[Tensor, bool]:
        self.steps += 1
        if self.steps == 150:
            self.gain[:] = 0.5
        return Endless.step(self, actions)


class Latch(Endless):
    """A fault that is latched when a joint is beyond 150: it never is, while anybody looks."""

    def build(self) -> None:
        self.fault = torch.zeros(1, 1, dtype=torch.bool)
        super().build()

    def compute_observations(self) -> Tensor:
        beyond = self.env.data_source.foo.abs().amax(dim=-1, keepdim=True) > 150.0
        self.fault = self.fault | beyond
        return super().compute_observations()

    def apply_actions(self) -> None:
        self.env.command[:] = torch.where(self.fault, 0.0, 2.0 * self.env.last)


class LatchOfTheWorld(Latch):
    """The same, latched by step()."""

    def compute_observations(self) -> Tensor:
        return Sound.compute_observations(self)

    def world(self) -> None:
        super().world()
        self.fault |= self.env.data_source.foo.abs().amax(dim=-1, keepdim=True) > 150.0


class LatchNumber(Endless):
    """The same, as a flag of Python's in a branch that the run never takes."""

    def build(self) -> None:
        self.fault = False
        super().build()

    def world(self) -> None:
        super().world()
        if float(self.env.data_source.foo.abs().max()) > 150.0:
            self.fault = True

    def apply_actions(self) -> None:
        self.env.command[:] = 0.0 if self.fault else 2.0 * self.env.last


class LateLimit(Endless):
    """Commands are limited after a hundred ticks, by a counter of apply_actions."""

    def build(self) -> None:
        self.applied = 0
        super().build()

    def apply_actions(self) -> None:
        self.applied += 1
        limit = 0.1 if self.applied > 100 else 10.0
        self.env.command[:] = (2.0 * self.env.last).clamp(-limit, limit)


class LateLimitGlobal(Endless):
    """The same, with a counter that belongs to no object."""

    def apply_actions(self) -> None:
        _counted["calls"] += 1
        limit = 0.1 if _counted["calls"] > 100 else 10.0
        self.env.command[:] = (2.0 * self.env.last).clamp(-limit, limit)


class LateLimitIterator(Endless):
    def build(self) -> None:
        self.count = itertools.count()
        super().build()

    def apply_actions(self) -> None:
        limit = 0.1 if next(self.count) > 100 else 10.0
        self.env.command[:] = (2.0 * self.env.last).clamp(-limit, limit)


class GrowingLog(Endless):
    """A list whose length decides."""

    def build(self) -> None:
        self.lengths: list[int] = []
        super().build()

    def process_actions(self, actions: Tensor) -> None:
        super().process_actions(actions)
        self.lengths.append(1)

    def apply_actions(self) -> None:
        self.env.command[:] = (0.5 if len(self.lengths) > 100 else 2.0) * self.env.last


class ForgottenDecimation(Endless):
    """Four ticks in each step, and nobody says so."""

    def ticks(self) -> int:
        return 4


class TwoForFour(ForgottenDecimation):
    decimation = 2


class AirTimeAsInput(Endless):
    """The time since a foot was on the ground, registered as if a sensor measured it."""

    kind: type[Input] = Input

    def build(self) -> None:
        self.contact, self.air_time = torch.ones(1, 2), torch.zeros(1, 2)
        super().build()

    def register(self) -> None:
        super().register()
        self.add(Input("contact", lambda: self.contact))
        self.add(self.kind("air_time", lambda: self.air_time))

    def begin(self) -> None:
        super().begin()
        self.contact[:], self.air_time[:] = 1.0, 0.0

    def world(self) -> None:
        super().world()
        self.contact[:] = float(self.age % 9 < 5)

    def compute_observations(self) -> Tensor:
        return super().compute_observations() + self.air_time.repeat(1, 3)

    def process_actions(self, actions: Tensor) -> None:
        super().process_actions(actions)
        self.air_time[:] = (self.air_time + 0.02) * (self.contact < 0.5)


class AirTimeRebound(AirTimeAsInput):
    def process_actions(self, actions: Tensor) -> None:
        Sound.process_actions(self, actions)
        self.air_time = torch.where(self.contact > 0.5, 0.0, self.air_time + 0.02)


class ForgottenAirTime(AirTimeAsInput):
    """Not registered; at the moment of the export the foot is on the ground."""

    def register(self) -> None:
        Sound.register(self)
        self.add(Input("contact", lambda: self.contact))


class ForgottenAirTimeRebound(ForgottenAirTime):
    process_actions = AirTimeRebound.process_actions


class QueueAsInput(LongDelay):
    def register(self) -> None:
        super().register()
        self.add(Input("queue", lambda: self.queue))


class ShortQueueAsInput(QueueAsInput):
    length = 3


class StandingWorld(Endless):
    def world(self) -> None:
        """Nothing moves."""


class StandingCopy(Endless):
    """prepare_export puts in another data source, which no world writes."""

    def prepare_export(self) -> None:
        self.real = self.env._data_source
        self.env._data_source = type(self.real)()
        self.env._data_source.foo[:], self.env._data_source.bar[:] = 0.1, 0.2

    def world(self) -> None:
        source = getattr(self, "real", self.env.data_source)
        source.foo[:], source.bar[:] = wave(self.age, 1, 2), wave(self.age + 4, 1, 2)


class IdleReset(Endless):
    def observations_reset(self) -> Tensor:
        return self.compute_observations()


class IdleResetOfHistory(IdleReset):
    """Observing changes memory, and resetting does no more than observing."""

    def build(self) -> None:
        self.history = torch.zeros(1, 6)
        super().build()

    def register(self) -> None:
        super().register()
        self.add(Memory("history", lambda: self.history))

    def compute_observations(self) -> Tensor:
        now = super().compute_observations()
        seen = now + 0.5 * self.history
        self.history = now.clone()
        return seen


class Clock(Endless):
    def compute_observations(self) -> Tensor:
        return super().compute_observations() + (0.5 if time.time() > 4e9 else 0.0)


class ClockOfTicks(Endless):
    def apply_actions(self) -> None:
        gain = 2.0 if time.monotonic() >= 0.0 else 1.0
        self.env.command[:] = gain * self.env.last


class Random(Endless):
    def compute_observations(self) -> Tensor:
        return super().compute_observations() + (0.5 if random.random() < 1e-9 else 0.0)


class RandomNumpy(Endless):
    def apply_actions(self) -> None:
        gain = 0.5 if np.random.rand() < 1e-9 else 2.0
        self.env.command[:] = gain * self.env.last


class OwnGenerator(Endless):
    def build(self) -> None:
        self.rng = np.random.default_rng(0)
        super().build()

    def apply_actions(self) -> None:
        gain = 0.5 if self.rng.random() < 1e-9 else 2.0
        self.env.command[:] = gain * self.env.last


class FileAsked(Endless):
    def compute_observations(self) -> Tensor:
        with open(__file__) as file:  # noqa: PTH123  # as people write it
            long = len(file.read()) > 1e9
        return super().compute_observations() + (0.5 if long else 0.0)


class SilentReset(Endless):
    """Memory is reset inside of step() after ninety steps, and nobody is told."""

    every = 90

    def step(self, actions: Tensor) -> tuple[Tensor, bool]:
        following, _ = super().step(actions)
        if self.age % self.every == 0:
            self.env.last[:] = 0.25
        return following, False


class SilentResetSoon(SilentReset):
    every = 7


class ReplacedSource(Endless):
    """The data source is another object after every tick; its second tensor is forgotten."""

    def register(self) -> None:
        self.add(Input("foo", lambda: self.env.data_source.foo))
        self.add(Memory("last", lambda: self.env.last))
        self.add(Output("command", lambda: self.env.command))

    def world(self) -> None:
        self.env._data_source = type(self.env.data_source)()
        super().world()


class ReplacedOnce(ReplacedSource):
    """It is replaced after the registration, once."""

    def world(self) -> None:
        Sound.world(self)

    def prepare_export(self) -> None:
        self.env._data_source = type(self.env.data_source)()
        self.begin()


# Environment → the code of the refusal, and a part of where it points.
WRONG: dict[type[Sound], tuple[str, str]] = {
    LongDelay: ("RW121", "env.queue"),
    DequeDelay: ("RW121", "env.queue"),
    LateTerm: ("RW121", "env.progress"),
    LateTermTensor: ("RW121", "env.progress"),
    RareCommand: ("RW121", "env.wanted"),
    VeryRareCommand: ("RW121", "env.wanted"),
    TimedCommand: ("RW121", "env.wanted"),
    LateGain: ("RW121", "env.gain"),
    LateGainTensor: ("RW121", "env.gain"),
    Latch: ("RW121", "env.fault"),
    LatchOfTheWorld: ("RW121", "env.fault"),
    LatchNumber: ("RW121", "env.fault"),
    LateLimit: ("RW121", "env.applied"),
    LateLimitGlobal: ("RW121", "_counted"),
    LateLimitIterator: ("RW121", "env.count"),
    GrowingLog: ("RW121", "env.lengths"),
    ForgottenDecimation: ("RW127", "ForgottenDecimation.decimation"),
    TwoForFour: ("RW127", "TwoForFour.decimation"),
    AirTimeAsInput: ("RW122", "air_time"),
    AirTimeRebound: ("RW122", "air_time"),
    ForgottenAirTime: ("RW121", "env.air_time"),
    ForgottenAirTimeRebound: ("RW121", "env.air_time"),
    QueueAsInput: ("RW122", "queue"),
    ShortQueueAsInput: ("RW122", "queue"),
    StandingWorld: ("RW128", "StandingWorld.step"),
    StandingCopy: ("RW128", "StandingCopy.step"),
    IdleReset: ("RW128", "IdleReset.observations_reset"),
    IdleResetOfHistory: ("RW128", "IdleResetOfHistory.observations_reset"),
    Clock: ("RW124", "late_changes.py"),
    ClockOfTicks: ("RW124", "late_changes.py"),
    Random: ("RW123", "late_changes.py"),
    RandomNumpy: ("RW123", "numpy.random"),
    OwnGenerator: ("RW123", "env.rng"),
    FileAsked: ("RW124", "late_changes.py"),
    SilentReset: ("RW133", "SilentReset.step"),
    SilentResetSoon: ("RW133", "SilentResetSoon.step"),
    ReplacedSource: ("RW121", "data_source.bar"),
    ReplacedOnce: ("RW121", "data_source.bar"),
}
