"""Policies whose later calls differ from earlier ones, by one way each; none shows it soon.

`CAUSES` says for each what the finding must name.
"""

from __future__ import annotations

import contextvars
import dataclasses
import functools
import itertools
import threading
import types
import weakref
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

LATE = 5_000
COUNT = 0
HELD: dict[str, int] = {"count": 0}
TOTAL = [0]
NUMBERS = itertools.count()
CURRENT: contextvars.ContextVar[int] = contextvars.ContextVar("current", default=0)
BESIDE: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

CAUSES: dict[type[nn.Module], str] = {}


def names(where: str) -> Callable[[type[nn.Module]], type[nn.Module]]:
    """Registers a policy with what its finding is about."""

    def register(kind: type[nn.Module]) -> type[nn.Module]:
        CAUSES[kind] = where
        return kind

    return register


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 4)
        self.begin()

    def begin(self) -> None:
        """What an episode starts with."""

    def forward(self, obs: Tensor) -> Tensor:
        return self.act(self.net(obs), obs)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y


@names("AttributeCounter.steps")
class AttributeCounter(Base):
    def begin(self) -> None:
        self.steps = 0

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.steps += 1
        return y * 0 if self.steps > LATE else y


@names("EveryLate.steps")
class EveryLate(Base):
    def begin(self) -> None:
        self.steps = 0.0

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.steps = self.steps + 1.0
        if int(self.steps) % LATE == 0:
            return y * 2
        return y


@names("FedToATensor.phase")
class FedToATensor(Base):
    def begin(self) -> None:
        self.phase = 0.0

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.phase += 1e-12
        return y + self.phase


@names("BufferCounter.steps")
class BufferCounter(Base):
    steps: Tensor

    def begin(self) -> None:
        self.register_buffer("steps", torch.zeros(()))

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.steps += 1
        return torch.where(self.steps > LATE, y * 0, y)


@names("DataCounter.steps")
class DataCounter(Base):
    def begin(self) -> None:
        self.steps = torch.zeros(1)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.steps.data.add_(1)
        return torch.where(self.steps > LATE, y * 0, y)


@names("ReboundTensor.steps")
class ReboundTensor(Base):
    def begin(self) -> None:
        self.steps = torch.zeros(1, 1)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.steps = self.steps + 1
        return torch.where(self.steps > LATE, y * 0, y)


@names("wrong.COUNT")
class GlobalCounter(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        global COUNT
        COUNT += 1
        return y * 0 if COUNT > LATE else y


@names("wrong.HELD.count")
class GlobalDict(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        HELD["count"] += 1
        return y * 0 if HELD["count"] > LATE else y


def bump() -> int:
    TOTAL[0] += 1
    return TOTAL[0]


@names("wrong.TOTAL[0]")
class GlobalList(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if bump() > LATE else y


def make_gate() -> Callable[[Tensor], Tensor]:
    count = 0

    def gate(y: Tensor) -> Tensor:
        nonlocal count
        count += 1
        return y * 0 if count > LATE else y

    return gate


@names("gate.count")
class ClosureCounter(Base):
    def begin(self) -> None:
        self.gate = make_gate()

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return self.gate(y)


GATE = make_gate()


@names("wrong.GATE.count")
class GlobalClosure(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return GATE(y)


@names("ClassCounter.count")
class ClassCounter(Base):
    count = 0

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        ClassCounter.count += 1
        return y * 0 if self.count > LATE else y


class Registry:
    calls = 0


@names("Registry.calls")
class OtherClass(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        Registry.calls += 1
        return y * 0 if Registry.calls > LATE else y


@names("nn.Linear.seen_by_me")
class LibraryClass(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        torch.nn.Linear.seen_by_me = getattr(torch.nn.Linear, "seen_by_me", 0) + 1
        return y * 0 if torch.nn.Linear.seen_by_me > LATE else y


@names("wrong.torch.calls_of_mine")
class ModuleAttribute(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        torch.calls_of_mine = getattr(torch, "calls_of_mine", 0) + 1
        return y * 0 if torch.calls_of_mine > LATE else y


@names("DefaultArgument.act.seen")
class DefaultArgument(Base):
    def act(self, y: Tensor, obs: Tensor, seen: list[int] = []) -> Tensor:  # noqa: B006
        seen.append(1)
        return y * 0 if len(seen) > LATE else y


@names("KeywordDefault.act.seen")
class KeywordDefault(Base):
    def act(self, y: Tensor, obs: Tensor, *, seen: Any = Counter()) -> Tensor:  # noqa: B006
        seen["calls"] += 1
        return y * 0 if seen["calls"] > LATE else y


def limited(y: Tensor) -> Tensor:
    limited.calls += 1  # type: ignore[attr-defined]
    return y * 0 if limited.calls > LATE else y  # type: ignore[attr-defined]


limited.calls = 0  # type: ignore[attr-defined]


@names("wrong.limited.calls")
class FunctionAttribute(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return limited(y)


@names("LongDeque.past")
class LongDeque(Base):
    def begin(self) -> None:
        self.past: deque[Tensor] = deque(maxlen=LATE)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.past.append(obs)
        return y * 0 if len(self.past) == LATE else y


@names("LongList.past")
class LongList(Base):
    def begin(self) -> None:
        self.past: list[int] = []

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.past.append(1)
        return y * 0 if self.past[LATE:] else y


@names("LongDict.past")
class LongDict(Base):
    def begin(self) -> None:
        self.past: dict[int, int] = {}

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.past[len(self.past)] = 1
        return y * 0 if LATE in self.past else y


@names("LongSet.past")
class LongSet(Base):
    def begin(self) -> None:
        self.past: set[int] = set()

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.past.add(len(self.past))
        return y * 0 if len(self.past) > LATE else y


@names("OrderedOne.past")
class OrderedOne(Base):
    def begin(self) -> None:
        self.past: OrderedDict[int, int] = OrderedDict()

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.past[len(self.past)] = 1
        return y * 0 if len(self.past) > LATE else y


@names("DefaultOne.past.calls")
class DefaultOne(Base):
    def begin(self) -> None:
        self.past: defaultdict[str, int] = defaultdict(int)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.past["calls"] += 1
        return y * 0 if self.past["calls"] > LATE else y


@names("Stalled.still")
class Stalled(Base):
    """Stops when the observation has not moved for a long time."""

    def begin(self) -> None:
        self.register_buffer("last", torch.zeros(1, 4))
        self.still = torch.zeros(1, 1)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        moved = ((obs - self.last).abs() > 1e-6).any(-1, keepdim=True)
        self.still = torch.where(moved, 0.0, self.still + 1)
        self.last = obs.clone()
        return torch.where(self.still > LATE, y * 0, y)


@names("Latch.closed")
class Latch(Base):
    def begin(self) -> None:
        self.closed = torch.zeros(1, 1, dtype=torch.bool)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.closed = self.closed | (obs.abs() > 150).any(-1, keepdim=True)
        return torch.where(self.closed, y * 0, y)


@names("LatchInPlace.closed")
class LatchInPlace(Base):
    closed: Tensor

    def begin(self) -> None:
        self.register_buffer("closed", torch.zeros((), dtype=torch.bool))

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.closed.logical_or_((obs.abs() > 150).any())
        return torch.where(self.closed, y * 0, y)


@names("Peak.peak")
class Peak(Base):
    def begin(self) -> None:
        self.peak = torch.full((1, 4), 150.0)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.peak = torch.maximum(self.peak, obs.abs())
        return y * (150.0 / self.peak)


@names("NextOfCount.numbers")
class NextOfCount(Base):
    def begin(self) -> None:
        self.numbers = itertools.count()

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if next(self.numbers) > LATE else y


@names("wrong.NUMBERS")
class GlobalCount(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if next(NUMBERS) > LATE else y


def schedule() -> Iterator[float]:
    for _ in range(LATE):
        yield 1.0
    while True:
        yield 0.0


@names("NextOfGenerator.schedule")
class NextOfGenerator(Base):
    def begin(self) -> None:
        self.schedule = schedule()

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * next(self.schedule)


@names("NextOfList.plan")
class NextOfList(Base):
    def begin(self) -> None:
        self.plan = iter([1.0] * LATE + [0.0] * 10_000)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * next(self.plan)


@names("NextOfCycle.plan")
class NextOfCycle(Base):
    def begin(self) -> None:
        self.plan = itertools.cycle([1.0] * LATE + [0.0])

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * next(self.plan)


class Ticker:
    def __init__(self) -> None:
        self.ticks = 0

    def late(self) -> bool:
        self.ticks += 1
        return self.ticks > LATE


@names("PlainObject.ticker.ticks")
class PlainObject(Base):
    def begin(self) -> None:
        self.ticker = Ticker()

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if self.ticker.late() else y


@names("NestedObject.box.inner.ticks")
class NestedObject(Base):
    def begin(self) -> None:
        self.box = types.SimpleNamespace(inner=Ticker())

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if self.box.inner.late() else y


class Slotted:
    __slots__ = ("__ticks", "ticks")

    def __init__(self) -> None:
        self.ticks = 0


@names("SlottedObject.ticker.ticks")
class SlottedObject(Base):
    def begin(self) -> None:
        self.ticker = Slotted()

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.ticker.ticks += 1
        return y * 0 if self.ticker.ticks > LATE else y


@dataclasses.dataclass
class Progress:
    steps: int = 0


@names("DataObject.progress.steps")
class DataObject(Base):
    def begin(self) -> None:
        self.progress = Progress()

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.progress.steps += 1
        return y * 0 if self.progress.steps > LATE else y


@dataclasses.dataclass(frozen=True)
class Frozen:
    steps: int = 0


@names("FrozenObject.progress")
class FrozenObject(Base):
    def begin(self) -> None:
        self.progress = Frozen()

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.progress = dataclasses.replace(self.progress, steps=self.progress.steps + 1)
        return y * 0 if self.progress.steps > LATE else y


class Pair(NamedTuple):
    steps: int
    gain: float


@names("NamedPair.pair")
class NamedPair(Base):
    def begin(self) -> None:
        self.pair = Pair(0, 1.0)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.pair = self.pair._replace(steps=self.pair.steps + 1)
        return y * 0 if self.pair.steps > LATE else y


@names("TupleInTuple.pair")
class TupleInTuple(Base):
    def begin(self) -> None:
        self.pair = (("steps", 0),)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.pair = (("steps", self.pair[0][1] + 1),)
        return y * 0 if self.pair[0][1] > LATE else y


@names("ListInTuple.pair[0]")
class ListInTuple(Base):
    def begin(self) -> None:
        self.pair = ([0], 1.0)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.pair[0][0] += 1
        return y * 0 if self.pair[0][0] > LATE else y


@names("wrong.BESIDE.data")
class WeakState(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        BESIDE[self] = BESIDE.get(self, 0) + 1
        return y * 0 if BESIDE[self] > LATE else y


class Counted:
    """A descriptor that keeps the numbers of its owners."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}

    def __get__(self, owner: Any, kind: type) -> int:
        self.numbers[0] = self.numbers.get(0, 0) + 1
        return self.numbers[0]


@names("DescriptorState.calls.numbers.0")
class DescriptorState(Base):
    calls = Counted()

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if self.calls > LATE else y


@names("PropertyState._calls")
class PropertyState(Base):
    def begin(self) -> None:
        self._calls = 0

    @property
    def late(self) -> bool:
        self._calls += 1
        return self._calls > LATE

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if self.late else y


@names("ArrayCounter.counts")
class ArrayCounter(Base):
    def begin(self) -> None:
        self.counts = np.zeros(3)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.counts[1] += 1
        return y * 0 if self.counts[1] > LATE else y


@names("ArrayAsTensor.gain")
class ArrayAsTensor(Base):
    def begin(self) -> None:
        self.gain = np.ones(4, np.float32)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        np.multiply(self.gain, np.float32(1 - 1e-7), out=self.gain)
        return y * torch.from_numpy(self.gain.copy())


@names("BytesCounter.counts")
class BytesCounter(Base):
    def begin(self) -> None:
        self.counts = bytearray(2)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.counts[0] = (self.counts[0] + 1) % 256
        return y * 0 if self.counts[0] > 250 else y


@names("TensorAttribute.net.weight.calls")
class TensorAttribute(Base):
    def begin(self) -> None:
        self.net.weight.calls = 0  # type: ignore[attr-defined]

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.net.weight.calls += 1  # type: ignore[attr-defined]
        return y * 0 if self.net.weight.calls > LATE else y  # type: ignore[attr-defined]


@names("ThreadLocal.local.calls")
class ThreadLocal(Base):
    def begin(self) -> None:
        self.local = threading.local()
        self.local.calls = 0

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.local.calls += 1
        return y * 0 if self.local.calls > LATE else y


@names("wrong.CURRENT.get()")
class ContextState(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        CURRENT.set(CURRENT.get() + 1)
        return y * 0 if CURRENT.get() > LATE else y


@functools.lru_cache
def cached_cell() -> list[int]:
    return [0]


@names("cached_cell")
class InACache(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        cell = cached_cell()
        cell[0] += 1
        return y * 0 if cell[0] > LATE else y


@names("Toggled.on")
class Toggled(Base):
    def begin(self) -> None:
        self.on: object = None

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        if self.on is None:
            self.on = self
            return y
        self.on = None
        return y + 1e-12


@names("Text.log")
class Text(Base):
    def begin(self) -> None:
        self.log = ""

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.log += "x"
        return y * 0 if len(self.log) > LATE else y


@names("HookCounter.seen")
class HookCounter(Base):
    def begin(self) -> None:
        self.seen = 0
        self.net.register_forward_hook(self.hook)

    def hook(self, module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        self.seen += 1
        return output * 0 if self.seen > LATE else output


class ClearsMemory(Base):
    def begin(self) -> None:
        self.steps = 0
        self.h = torch.zeros(1, 4)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.steps += 1
        if self.steps % LATE == 0:
            self.h = torch.zeros_like(self.h)
        self.h = torch.tanh(self.h + y)
        return self.h


class ClearsByTensor(Base):
    steps: Tensor

    def begin(self) -> None:
        self.register_buffer("steps", torch.zeros(()))
        self.h = torch.zeros(1, 4)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.steps += 1
        self.h = torch.where(self.steps % LATE == 0, 0.0, torch.tanh(self.h + y))
        return y


class TwoStates(Base):
    def begin(self) -> None:
        self.steps = 0
        self.peak = torch.full((1, 4), 150.0)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.steps += 1
        self.peak = torch.maximum(self.peak, obs.abs())
        return y * 0 if self.steps > LATE else y * (150.0 / self.peak)


class AtOnce(Base):
    def begin(self) -> None:
        self.steps = 0

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.steps += 1
        return y * self.steps
