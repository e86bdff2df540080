"""Policies that look as if they kept state, and keep none: nothing that is read was left behind."""

from __future__ import annotations

import functools
import itertools
import logging
import time
from collections import Counter, deque
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Normal

from tests.capture.state.wrong import Base

LOG: list[Any] = []
TABLES: dict[int, Tensor] = {}
CALLS = 0
logger = logging.getLogger(__name__)

ALIKE: list[type[nn.Module]] = []


def alike(kind: type[nn.Module]) -> type[nn.Module]:
    ALIKE.append(kind)
    return kind


@alike
class KeepsDistribution(Base):
    distribution: Normal

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.distribution = Normal(y, torch.ones_like(y))
        return self.distribution.mean


@alike
class KeepsLast(Base):
    def begin(self) -> None:
        self.last_obs: Tensor | None = None
        self.last_action: Tensor | None = None

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.last_obs, self.last_action = obs, y
        return y


@alike
class WritesThenReads(Base):
    scale: Tensor

    def begin(self) -> None:
        self.register_buffer("scale", torch.zeros(4))

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.scale.copy_(self.net.bias)
        return y * self.scale


@alike
class CountsForALog(Base):
    def begin(self) -> None:
        self.calls = 0
        self.text = ""

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.calls += 1
        self.text = f"{self.calls} calls"
        logger.debug("call %s", self.calls)
        return y


@alike
class BufferForALog(Base):
    calls: Tensor

    def begin(self) -> None:
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.calls += 1
        return y


@alike
class GlobalForALog(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        global CALLS
        CALLS += 1
        return y


@alike
class ClassForALog(Base):
    calls = 0

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        type(self).calls += 1
        return y


@alike
class AppendsToALog(Base):
    def begin(self) -> None:
        self.log: list[Any] = []
        self.recent: deque[Any] = deque(maxlen=2)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.log.append(obs)
        self.recent.append(obs)
        LOG.append(1)
        return y


@alike
class CountsInADict(Base):
    def begin(self) -> None:
        self.stats: dict[str, float] = {"calls": 0}
        self.counter: Counter[str] = Counter()

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.stats["calls"] += 1
        self.counter["calls"] += 1
        return y


@alike
class LazyTable(Base):
    def begin(self) -> None:
        self.table: Tensor | None = None

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        if self.table is None:
            self.table = torch.arange(4.0)
        return y + self.table


@alike
class LazyAttribute(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        if not hasattr(self, "scale"):
            self.scale = 0.5
        return y * self.scale


@alike
class CachedProperty(Base):
    @functools.cached_property
    def scale(self) -> Tensor:
        return torch.full((4,), 0.5)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * self.scale


@functools.lru_cache
def mask(size: int) -> Tensor:
    return torch.tril(torch.ones(size, size))


@alike
class MemoisedMask(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y @ mask(y.shape[-1])


@alike
class CacheBySize(Base):
    def begin(self) -> None:
        self.masks: dict[int, Tensor] = {}

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        size = y.shape[-1]
        if size not in self.masks:
            self.masks[size] = torch.ones(size)
        if size not in TABLES:
            TABLES[size] = torch.ones(size)
        return y * self.masks[size] * TABLES[size]


@alike
class BranchesOnShape(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        if obs.ndim == 3:
            return y.mean(1)
        return y if obs.shape[-1] == 4 else y * 2


@alike
class ConstantsOnce(Base):
    def begin(self) -> None:
        self.limits = np.linspace(0.5, 1.0, 4, dtype=np.float32)
        self.names = ["a", "b", "c", "d"]

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        for index, _ in enumerate(self.names):
            y = y * float(self.limits[index])
        return y * torch.from_numpy(self.limits)


@alike
class TimesItself(Base):
    def begin(self) -> None:
        self.last_ms = 0.0

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        start = time.perf_counter()
        y = torch.tanh(y)
        self.last_ms = (time.perf_counter() - start) * 1e3
        return y


@alike
class DrawsAndForgets(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.sample = torch.normal(y, 1.0)
        return y


@alike
class Numbers(Base):
    def begin(self) -> None:
        self.numbers = itertools.count()

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.ticket = next(self.numbers)
        return y


class Record(NamedTuple):
    obs: Tensor
    value: Tensor


@alike
class KeepsARecord(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.record = Record(obs, y)
        self.info = {"mean": y, "shape": tuple(y.shape)}
        return y


@alike
class ArrayForALog(Base):
    def begin(self) -> None:
        self.counts = np.zeros(2)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.counts[0] += 1
        self.counts += 1
        return y


@alike
class HookForALog(Base):
    def begin(self) -> None:
        self.features: dict[str, Tensor] = {}
        self.net.register_forward_hook(self.hook)

    def hook(self, module: nn.Module, inputs: Any, output: Tensor) -> None:
        self.features["net"] = output


@alike
class ViewOfAWeight(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.row = self.net.weight[0]
        return y + self.row


@alike
class WorkBuffer(Base):
    work: Tensor

    def begin(self) -> None:
        self.register_buffer("work", torch.zeros(8, 4))

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        work = torch.zeros_like(y)
        work[:, :2] = y[:, :2]
        self.shown = work
        return y + work


@alike
class LastOfManyObjects(Base):
    def begin(self) -> None:
        self.tracker = Tracker()

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.tracker.saw(y)
        return y


class Tracker:
    """What a training loop hangs onto a policy."""

    def __init__(self) -> None:
        self.seen = 0
        self.last: Tensor | None = None

    def saw(self, y: Tensor) -> None:
        self.seen += 1
        self.last = y
