"""Policies that ask something outside of themselves: clocks, generators, files, the environment."""

from __future__ import annotations

import datetime
import math
import os
import random
import time
import uuid
from pathlib import Path
from time import monotonic

import numpy as np
import torch
from torch import Tensor, nn

from tests.capture.state.wrong import Base

START = time.time()

# Policy → the code of its finding, and something that it names.
QUESTIONS: dict[type[nn.Module], tuple[str, str]] = {}


class Clock(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if time.time() > START + 3600 else y


class ImportedClock(Base):
    def begin(self) -> None:
        self.since = monotonic()

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if monotonic() - self.since > 3600 else y


class ClockIntoATensor(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y + 0 * time.perf_counter_ns()


class PhaseOfAClock(Base):
    """Another answer at every call: no two experiments agree."""

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * math.sin(40.0 * time.time())


class Blinking(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y if time.monotonic_ns() // 300_000 % 2 else y * 0


class Calendar(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if datetime.datetime.now().year > 9000 else y


class Today(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if datetime.date.today().year > 9000 else y


class LocalTime(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if time.localtime().tm_year > 9000 else y


class RandomRarely(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if random.random() < 1e-9 else y


class RandomInteger(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if random.randint(0, 10**9) == 7 else y


class NumpyRarely(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if np.random.rand() < 1e-9 else y


class OwnRandom(Base):
    def begin(self) -> None:
        self.generator = random.Random(0)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if self.generator.random() < 1e-9 else y


class OwnNumpy(Base):
    def begin(self) -> None:
        self.generator = np.random.default_rng(0)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if self.generator.random() < 1e-9 else y


class TorchRarely(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return torch.where(torch.rand(()) < 1e-9, y * 0, y)


class TorchBernoulli(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * torch.bernoulli(torch.ones_like(y) * 0.999999)


class TorchChoice(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        weights = torch.tensor([1.0, 1e-9])
        return y * (1 - torch.multinomial(weights, 1).float())


class Urandom(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if os.urandom(4) == b"\0\0\0\0" else y


class Uuid(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if uuid.uuid4().int == 7 else y


class ReadsAFile(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y if Path(__file__).read_text() else y * 0


class OpensAFile(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        with open(__file__) as file:  # noqa: PTH123
            return y if file.readline() else y * 0


class LooksForAFile(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if os.path.exists("/estop") else y  # noqa: PTH110


class ReadsTheEnvironment(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if os.environ.get("ESTOP") else y


class GetsTheEnvironment(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if os.getenv("ESTOP") else y


QUESTIONS |= {
    Clock: ("RW124", "time.time"),
    ImportedClock: ("RW124", "time.monotonic"),
    ClockIntoATensor: ("RW124", "time.perf_counter_ns"),
    PhaseOfAClock: ("RW124", "time.time"),
    Blinking: ("RW124", "time.monotonic_ns"),
    Calendar: ("RW124", "datetime.now"),
    Today: ("RW124", "datetime.today"),
    LocalTime: ("RW124", "time.localtime"),
    RandomRarely: ("RW111", "random.random() < 1e-9"),
    RandomInteger: ("RW111", "random.randint(0, 10**9)"),
    NumpyRarely: ("RW111", "numpy.random"),
    OwnRandom: ("RW111", "OwnRandom.generator"),
    OwnNumpy: ("RW111", "OwnNumpy.generator"),
    TorchRarely: ("RW111", "torch.rand(())"),
    TorchBernoulli: ("RW111", "torch.bernoulli"),
    TorchChoice: ("RW111", "torch.multinomial"),
    Urandom: ("RW124", "os.urandom"),
    Uuid: ("RW124", "os.urandom"),
    ReadsAFile: ("RW124", "open"),
    OpensAFile: ("RW124", "open"),
    LooksForAFile: ("RW124", "os.stat"),
    ReadsTheEnvironment: ("RW124", "os.environ"),
    GetsTheEnvironment: ("RW124", "os.environ"),
}
