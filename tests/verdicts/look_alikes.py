"""Policies that do what state does, and keep none: each must be certified without a word."""

from __future__ import annotations

import bisect
import collections
import contextlib
import functools
import gc
import itertools
import json
import logging
import math
import operator
import re
import struct
import threading
import time
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

LOOK_ALIKES: list[type[nn.Module]] = []
SEEN: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
TIMES: dict[str, list[float]] = collections.defaultdict(list)
logger = logging.getLogger(__name__)


def look_alike(kind: type[nn.Module]) -> type[nn.Module]:
    LOOK_ALIKES.append(kind)
    return kind


class Actor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Linear(12, 3))
        self.prepare()

    def prepare(self) -> None:
        """What the policy holds besides its network."""

    def forward(self, obs: Tensor) -> Tensor:
        return self.body(obs)


@look_alike
class CachesLatent(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        self.latent = self.body[:2](obs)
        return self.body[2](self.latent)


@look_alike
class CachesInADict(Actor):
    def prepare(self) -> None:
        self.cache: dict[str, Tensor] = {}

    def forward(self, obs: Tensor) -> Tensor:
        self.cache["obs"] = obs
        self.cache["actions"] = self.body(obs)
        return self.cache["actions"]


@look_alike
class LogsEveryHundred(Actor):
    def prepare(self) -> None:
        self.calls = 0

    def forward(self, obs: Tensor) -> Tensor:
        self.calls += 1
        logger.info("%s calls of %s", self.calls, type(self).__name__)
        return self.body(obs)


@look_alike
class CountsUnderALock(Actor):
    def prepare(self) -> None:
        self.lock, self.served = _Lock(), 0

    def forward(self, obs: Tensor) -> Tensor:
        with self.lock.held():
            self.served += 1
        return self.body(obs)


class _Lock:
    def __init__(self) -> None:
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        with self._lock:
            yield


@look_alike
class ProfilesItself(Actor):
    @contextlib.contextmanager
    def timed(self, what: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        TIMES[what].append(time.perf_counter() - start)

    def forward(self, obs: Tensor) -> Tensor:
        with self.timed("body"):
            return self.body(obs)


@look_alike
class WarnsOnce(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("the observation is not normalised", stacklevel=2)
        return self.body(obs)


@look_alike
class ChecksItsShapes(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        self.check(obs)
        return self.body(obs)

    def check(self, obs: Tensor) -> None:
        assert obs.ndim == 2, f"expected (batch, 5), got {tuple(obs.shape)}"
        if obs.shape[-1] != 5:
            raise ValueError(f"expected 5 numbers, got {obs.shape[-1]}")


@functools.lru_cache(maxsize=4)
def gains(count: int) -> tuple[float, ...]:
    return tuple(1.0 / (1 + index) for index in range(count))


@look_alike
class CachedGains(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        return self.body(obs) * torch.tensor(gains(3))


@functools.cache
def rotation() -> Tensor:
    return torch.eye(3).roll(1, 0)


@look_alike
class CachedRotation(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        return self.body(obs) @ rotation()


@look_alike
class LazyPositions(Actor):
    """Sines of positions, made when first asked for, as many as are asked for."""

    def prepare(self) -> None:
        self.positions: dict[int, Tensor] = {}

    def table(self, size: int) -> Tensor:
        if size not in self.positions:
            self.positions[size] = torch.arange(float(size)).sin()
        return self.positions[size]

    def forward(self, obs: Tensor) -> Tensor:
        return self.body(obs + self.table(obs.shape[-1]))


@look_alike
class LazyLimits(Actor):
    def prepare(self) -> None:
        self._limits: Tensor | None = None

    @property
    def limits(self) -> Tensor:
        if self._limits is None:
            self._limits = torch.tensor([0.5, 1.0, 1.5])
        return self._limits

    def forward(self, obs: Tensor) -> Tensor:
        return torch.maximum(torch.minimum(self.body(obs), self.limits), -self.limits)


@look_alike
class OneRowOrMany(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        if obs.ndim == 1:
            return self.body(obs.unsqueeze(0)).squeeze(0)
        return self.body(obs)


@look_alike
class RecordsByHook(Actor):
    def prepare(self) -> None:
        self.activations: list[Tensor] = []
        for layer in self.body:
            layer.register_forward_hook(lambda *said: self.activations.append(said[-1]))


@look_alike
class RecordsBeforehand(Actor):
    def prepare(self) -> None:
        self.inputs: dict[str, Any] = {}
        self.body.register_forward_pre_hook(self.note)

    def note(self, module: nn.Module, inputs: Any) -> None:
        self.inputs[type(module).__name__] = inputs


@look_alike
class CountsItsUsers(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        SEEN[self] = SEEN.get(self, 0) + 1
        return self.body(obs)


@look_alike
class NumbersItsCalls(Actor):
    tickets = itertools.count()

    def forward(self, obs: Tensor) -> Tensor:
        self.ticket = next(self.tickets)
        return self.body(obs)


@look_alike
class KeepsStatistics(Actor):
    """A running mean for a dashboard, which no output reads."""

    mean: Tensor

    def prepare(self) -> None:
        self.register_buffer("seen_actions", torch.zeros(3))

    def forward(self, obs: Tensor) -> Tensor:
        y = self.body(obs)
        self.seen_actions.mul_(0.99).add_(0.01 * y.detach().mean(0))
        return y


@look_alike
class OverwritesScratch(Actor):
    def prepare(self) -> None:
        self.scratch = np.zeros(3, dtype=np.float32)

    def forward(self, obs: Tensor) -> Tensor:
        self.scratch[:] = (1.0, 2.0, 3.0)
        return self.body(obs) * torch.from_numpy(self.scratch.copy())


@look_alike
class SetsAndRestores(Actor):
    def prepare(self) -> None:
        self.gain = 1.0

    def forward(self, obs: Tensor) -> Tensor:
        before, self.gain = self.gain, 0.5
        try:
            return self.body(obs) * self.gain
        finally:
            self.gain = before


@look_alike
class BuildsItsOutput(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        y, parts = self.body(obs), []
        for index in range(3):
            parts.append(y[:, index] * (index + 1))  # noqa: PERF401
        return torch.stack(parts, -1)


@look_alike
class WritesIntoItsOutput(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        y = self.body(obs)
        out = torch.zeros_like(y)
        out[:, 0] = y[:, 1]
        out[:, 1:] = y[:, 1:].clamp(-1, 1)
        return out


@look_alike
class FirstCallMakesAConstant(Actor):
    def prepare(self) -> None:
        self.ready = False

    def forward(self, obs: Tensor) -> Tensor:
        if not self.ready:
            self.kernel = torch.full((3,), 0.7)
            self.ready = True
        return self.body(obs) * self.kernel


@look_alike
class ListsWhatItDid(Actor):
    def prepare(self) -> None:
        self.events: collections.deque[str] = collections.deque(maxlen=100)

    def forward(self, obs: Tensor) -> Tensor:
        self.events.append(f"acted on {tuple(obs.shape[1:])}")
        return self.body(obs)


@look_alike
class KeepsTheDistribution(Actor):
    def prepare(self) -> None:
        self.log_std = nn.Parameter(torch.zeros(3))

    def forward(self, obs: Tensor) -> Tensor:
        mean, std = self.body(obs), self.log_std.exp()
        self.distribution = torch.distributions.Normal(mean, std, validate_args=False)
        return self.distribution.mean


@functools.lru_cache(maxsize=4)
def window(size: int) -> float:
    return math.exp(-size)


@look_alike
class CallsFunctionsInC(Actor):
    """Known by their names to answer by their arguments alone."""

    def prepare(self) -> None:
        self.lock = threading.Lock()
        self.last = functools.partial(operator.getitem, [1.0, 2.0])
        self.pattern = re.compile(r"(\d+)")

    def forward(self, obs: Tensor) -> Tensor:
        with self.lock:
            width = struct.unpack("<f", struct.pack("<f", window(obs.shape[-1])))[0]
        found = self.pattern.match("12 joints")
        joints = int(found.group(1)) if found else 0
        scale = json.loads(json.dumps({"scale": self.last(1)}))["scale"]
        gc.collect(0)
        return self.body(obs) * (scale + width) + bisect.bisect([1, 5, 9], joints)


@look_alike
class CollectsWhatItSaw(Actor):
    """In a set that nobody reads: its items have no place of their own."""

    def prepare(self) -> None:
        self.seen: set[object] = set()

    def forward(self, obs: Tensor) -> Tensor:
        self.seen.add(object())
        return self.body(obs)


class Step:
    def __init__(self, obs: Tensor) -> None:
        self.obs = obs

    def scaled(self) -> Tensor:
        self.obs = self.obs * 2.0
        return self.obs


@look_alike
class MakesAnObjectAtEveryCall(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        return self.body(Step(obs).scaled())
