"""Environments that look like a mistake and are none."""

from __future__ import annotations

import logging
import random
import time

import torch
from torch import Tensor

from roadworthy.environment import Input, Memory, Output
from tests.environment.late_changes import AirTimeAsInput, AirTimeRebound, Endless, LongDelay
from tests.environment.mistakes import Sound
from tests.environment.robot import wave

_log = logging.getLogger(__name__)


class CountedForALog(Endless):
    """Counters that are only counted and told."""

    def build(self) -> None:
        self.calls, self.seconds, self.names = 0, 0.0, []
        super().build()

    def compute_observations(self) -> Tensor:
        self.calls += 1
        _log.debug("call %s", self.calls)
        return super().compute_observations()

    def process_actions(self, actions: Tensor) -> None:
        super().process_actions(actions)
        self.names.append("processed")


class TimedForALog(Endless):
    def build(self) -> None:
        self.spent_s = 0.0
        super().build()

    def apply_actions(self) -> None:
        start = time.perf_counter()
        super().apply_actions()
        self.spent_s += time.perf_counter() - start


class OnlyWritten(Endless):
    """A cache of what was computed last, a flag, a buffer that is filled before it is read."""

    def build(self) -> None:
        self.seen, self.buffer = torch.zeros(1, 6), torch.zeros(1, 6)
        self.ready = torch.zeros(1, dtype=torch.bool)
        super().build()

    def compute_observations(self) -> Tensor:
        self.seen = super().compute_observations()
        self.buffer[:, :3] = self.seen[:, :3]
        self.buffer[:, 3:] = self.seen[:, 3:]
        self.ready = self.seen[:, 0] > 0.5
        return self.buffer.clone()


class BuiltLazily(Endless):
    """A table and a number that are made when they are first needed."""

    def build(self) -> None:
        self.table: Tensor | None = None
        self.scale: float | None = None
        super().build()

    def compute_observations(self) -> Tensor:
        if self.table is None:
            self.table = torch.linspace(0.5, 1.5, 6)[None]
            self.scale = 0.5
        return super().compute_observations() * self.table * self.scale


class SwitchedOff(Endless):
    """Code behind a flag that nobody sets; a gain that only a reset writes."""

    def build(self) -> None:
        self.push, self.gain, self.stiffness = False, torch.ones(1, 1), 20.0
        super().build()

    def begin(self) -> None:
        super().begin()
        self.gain[:] = 1.5

    def world(self) -> None:
        super().world()
        if self.push:
            self.gain[:] = wave(self.age, 1, 1)
            self.stiffness = 1.0

    def apply_actions(self) -> None:
        self.env.command[:] = self.gain * self.stiffness * self.env.last


class FourTicks(Endless):
    decimation = 4


class DrawsInTheWorld(Endless):
    """The world is random; the captured methods are not."""

    def world(self) -> None:
        super().world()
        self.env.data_source.foo[:] += random.random() + 0.1 * torch.rand(1, 2)


class RightAirTime(AirTimeAsInput):
    kind = Memory


class RightAirTimeRebound(AirTimeRebound):
    kind = Memory


class RightDelay(LongDelay):
    def register(self) -> None:
        super().register()
        self.add(Memory("queue", lambda: self.queue))


class RightCommand(Endless):
    """A command every two hundred steps, and an episode every three hundred."""

    def build(self) -> None:
        self.wanted = torch.zeros(1, 6)
        super().build()

    def register(self) -> None:
        super().register()
        self.add(Input("wanted", lambda: self.wanted))

    def step(self, actions: Tensor) -> tuple[Tensor, bool]:
        if self.age % 200 == 199:
            self.wanted[:] = wave(self.age, 1, 6)
        following, _ = super().step(actions)
        if self.age < 300:
            return following, False
        return self.observations_reset(), True

    def compute_observations(self) -> Tensor:
        return super().compute_observations() + self.wanted


class HistoryOfObservations(Endless):
    """A history that compute_observations itself keeps; step() returns what it gave."""

    def build(self) -> None:
        self.history = torch.zeros(1, 3, 2)
        super().build()

    def register(self) -> None:
        super().register()
        self.add(Memory("history", lambda: self.history))

    def begin(self) -> None:
        super().begin()
        self.history[:] = 0.0

    def compute_observations(self) -> Tensor:
        now = self.env.data_source.foo[:, None]
        self.history = torch.cat([self.history[:, 1:], now], dim=1)
        return torch.cat([super().compute_observations(), self.history.flatten(1)], dim=-1)


class PartlyUpdated(Endless):
    """A command update that fills in one element of an Input from the others."""

    def build(self) -> None:
        self.wanted = torch.zeros(1, 3)
        super().build()
        self.register_command_update(self.turn)

    def register(self) -> None:
        super().register()
        self.add(Input("wanted", lambda: self.wanted))

    def turn(self) -> None:
        self.wanted[:, 2] = 0.5 * self.wanted[:, 0] - self.env.data_source.foo[:, 0]

    def world(self) -> None:
        super().world()
        self.wanted[:, :2] = wave(self.age, 1, 2)

    def compute_observations(self) -> Tensor:
        return super().compute_observations() + self.wanted.repeat(1, 2)


class Plain(Endless):
    def register(self) -> None:
        self.add(Input("foo", lambda: self.env.data_source.foo))
        self.add(Input("bar", lambda: self.env.data_source.bar))
        self.add(Memory("last", lambda: self.env.last))
        self.add(Output("command", lambda: self.env.command))


RIGHT: tuple[type[Sound], ...] = (
    CountedForALog, TimedForALog, OnlyWritten, BuiltLazily, SwitchedOff, FourTicks, DrawsInTheWorld,
    RightAirTime, RightAirTimeRebound, RightDelay, RightCommand, HistoryOfObservations,
    PartlyUpdated, Plain,
)  # fmt: skip
