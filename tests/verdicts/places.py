"""Wrong policies: each keeps or asks something that an export would freeze, in places of all kinds.

`PLACES` says for each the codes that may refuse it and what the findings must name.
"""

from __future__ import annotations

import array
import ctypes
import decimal
import functools
import io
import itertools
import logging
import os
import queue
import random
import sqlite3
import sys
import time
import types
from collections.abc import Callable, Generator

import numpy as np
import torch
from torch import Tensor, nn

OBS, LATE = 4, 300
PLACES: dict[type[Keeps], tuple[str, str]] = {}
CALLS = types.SimpleNamespace(count=0)
TALLY = array.array("l", [0])


class Keeps(nn.Module):
    """A layer, behind which the policy does what it should not."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(OBS, OBS)
        self.setup()

    def setup(self) -> None:
        """What an episode starts with."""

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, obs: Tensor) -> Tensor:
        return self.act(self.layer(obs), obs)


def wrong(name: str, code: str = "RW112") -> Callable[[type[Keeps]], type[Keeps]]:
    def register(kind: type[Keeps]) -> type[Keeps]:
        PLACES[kind] = (code, name)
        return kind

    return register


def late(y: Tensor, count: float) -> Tensor:
    return y * 0 if count > LATE else y


@wrong("steps")
class ByName(Keeps):
    def setup(self) -> None:
        self.steps = 0

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        setattr(self, "steps", getattr(self, "steps") + 1)  # noqa: B009, B010
        return late(y, self.steps)


@wrong("steps")
class PastTheModule(Keeps):
    def setup(self) -> None:
        self.steps = 0

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        object.__setattr__(self, "steps", self.steps + 1)
        return late(y, self.steps)


@wrong("steps")
class InItsDict(Keeps):
    def setup(self) -> None:
        self.steps = 0

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.__dict__["steps"] += 1
        return late(y, vars(self)["steps"])


@wrong("clock")
class InASubmodule(Keeps):
    class Clock(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("ticks", torch.zeros(1), persistent=False)

        def forward(self) -> Tensor:
            self.ticks += 1
            return self.ticks

    def setup(self) -> None:
        self.clock = self.Clock()

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return torch.where(self.clock() > LATE, y * 0, y)


@wrong("counts")
class InAParameter(Keeps):
    def setup(self) -> None:
        self.counts = nn.ParameterList([nn.Parameter(torch.zeros(1), requires_grad=False)])

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.counts[0].data += 1
        return torch.where(self.counts[0] > LATE, y * 0, y)


@wrong("gain")
class WeightThatDrifts(Keeps):
    def setup(self) -> None:
        self.gain = nn.Parameter(torch.ones(OBS))

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        with torch.no_grad():
            self.gain.mul_(1 - 1e-7)
        return y * self.gain


@wrong("ticks")
class InABufferDict(Keeps):
    def setup(self) -> None:
        self.register_buffer("ticks", torch.zeros(1, dtype=torch.int64))

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self._buffers["ticks"] = self._buffers["ticks"] + 1  # type: ignore[operator]
        return torch.where(self.ticks > LATE, y * 0, y)


@wrong("filtered")
class FilterWithoutABatch(Keeps):
    def setup(self) -> None:
        self.filtered = torch.zeros(OBS)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.filtered = 0.999999 * self.filtered + 1e-6 * y.detach().mean(0)
        return y + 1e-5 * self.filtered


@wrong("offset")
class TaresOnce(Keeps):
    """The first observation is taken for zero from then on."""

    def setup(self) -> None:
        self.offset: Tensor | None = None

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        if self.offset is None:
            self.offset = obs.detach()[:1]
        return y - self.offset


@wrong("first")
class LatchesFirst(Keeps):
    """Goes back to the first observation, but only far out."""

    def setup(self) -> None:
        self.first: Tensor | None = None

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        if self.first is None:
            self.first = obs.detach()[:1]
        return torch.where(obs.abs() > 1e4, self.first, y)


@wrong("started")
class WarmsUp(Keeps):
    def setup(self) -> None:
        self.started = False

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        scale = 1.0 if self.started else 0.5
        self.started = True
        return y * scale


@wrong("mode")
class ClosesItself(Keeps):
    def setup(self) -> None:
        self.mode, self.left = "walk", LATE

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.left -= 1
        self.mode = "stand" if self.left < 0 else "walk"
        return y if self.mode == "walk" else y * 0


@wrong("buffer")
class InStringIO(Keeps):
    def setup(self) -> None:
        self.buffer = io.StringIO()

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.buffer.write("x")
        return late(y, self.buffer.tell())


@wrong("tape")
class InBytesIO(Keeps):
    def setup(self) -> None:
        self.tape = io.BytesIO(b"\1" * LATE + b"\0" * 10_000)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * float(self.tape.read(1)[0])


@wrong("waiting")
class InAQueue(Keeps):
    def setup(self) -> None:
        self.waiting: queue.SimpleQueue[int] = queue.SimpleQueue()

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.waiting.put(1)
        return late(y, self.waiting.qsize())


@wrong("line")
class InALockedQueue(Keeps):
    def setup(self) -> None:
        self.line: queue.Queue[int] = queue.Queue()

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.line.put(1)
        return late(y, self.line.qsize())


@wrong("tally")
class InAnArray(Keeps):
    def setup(self) -> None:
        self.tally = array.array("l", [0])

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.tally[0] += 1
        return late(y, self.tally[0])


@wrong("TALLY")
class InAGlobalArray(Keeps):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        TALLY[0] += 1
        return late(y, TALLY[0])


@wrong("view")
class ThroughAMemoryView(Keeps):
    def setup(self) -> None:
        self.view = memoryview(bytearray(4))

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.view[0] = (self.view[0] + 1) % 256
        return y * 0 if self.view[0] > 200 else y


@wrong("count")
class InC(Keeps):
    def setup(self) -> None:
        self.count = ctypes.c_long(0)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.count.value += 1
        return late(y, self.count.value)


def plan() -> Generator[float, float, None]:
    count, gain = 0, 1.0
    while True:
        yield gain
        count += 1
        gain = 0.0 if count > LATE else 1.0


@wrong("plan")
class InAGenerator(Keeps):
    def setup(self) -> None:
        self.plan = plan()
        next(self.plan)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * self.plan.send(1.0)


def tick(held: dict[str, int]) -> int:
    held["ticks"] += 1
    return held["ticks"]


@wrong("tick")
class InAPartial(Keeps):
    def setup(self) -> None:
        self.tick = functools.partial(tick, {"ticks": 0})

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return late(y, self.tick())


class Odometer:
    def __init__(self) -> None:
        self.metres = 0.0

    def drive(self) -> float:
        self.metres += 1.0
        return self.metres


@wrong("metres")
class BehindAMethod(Keeps):
    def setup(self) -> None:
        self.drive = Odometer().drive

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return late(y, self.drive())


@wrong("metres")
class BehindALambda(Keeps):
    def setup(self) -> None:
        odometer = Odometer()
        self.drive = lambda: odometer.drive()

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return late(y, self.drive())


@wrong("CALLS.count")
class InAGlobalNamespace(Keeps):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        CALLS.count += 1
        return late(y, CALLS.count)


@wrong("my_calls")
class InSys(Keeps):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        sys.my_calls = getattr(sys, "my_calls", 0) + 1  # type: ignore[attr-defined]
        return late(y, sys.my_calls)  # type: ignore[attr-defined]


@wrong("environ", "RW112 RW124")
class InTheEnvironment(Keeps):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        os.environ["MY_CALLS"] = str(int(os.environ.get("MY_CALLS", "0")) + 1)
        return late(y, int(os.environ["MY_CALLS"]))


@wrong("layer")
class SwitchesLayers(Keeps):
    def setup(self) -> None:
        self.layer, self.spare = nn.Linear(OBS, OBS), nn.Linear(OBS, OBS)
        self.spare.load_state_dict(self.layer.state_dict())

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.layer, self.spare = self.spare, self.layer
        return y


@wrong("training", "RW112 RW160 RW126")
class GoesBackToTraining(Keeps):
    def setup(self) -> None:
        self.eval()

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        y = y if self.training else y + 1e-12
        self.training = not self.training
        return y


@wrong("armed")
class DeletesItsFlag(Keeps):
    def setup(self) -> None:
        self.armed = True

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        if hasattr(self, "armed"):
            del self.armed
            return y * 0.5
        return y


@wrong("gains")
class PopsAPlan(Keeps):
    def setup(self) -> None:
        self.gains = [0.0] * 1000 + [1.0] * LATE

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * self.gains.pop()


@wrong("plan")
class TurnsAPlan(Keeps):
    def setup(self) -> None:
        from collections import deque

        self.plan = deque([1.0] * LATE + [0.0])

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.plan.rotate(-1)
        return y * self.plan[0]


@wrong("statistics")
class RunningStatistics(Keeps):
    def setup(self) -> None:
        self.statistics = {"mean": np.zeros(OBS), "count": 1e4}

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.statistics["count"] += 1.0
        self.statistics["mean"] = self.statistics["mean"] * (1 - 1e-9)
        return y - torch.as_tensor(self.statistics["mean"], dtype=torch.float32)


@wrong("history")
class InATensorList(Keeps):
    def setup(self) -> None:
        self.history = [torch.zeros(1, OBS) for _ in range(LATE)]

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.history = [*self.history[1:], obs.detach()]
        return y + 0.1 * self.history[0]


@wrong("history")
class InARolledTensor(Keeps):
    def setup(self) -> None:
        self.register_buffer("history", torch.zeros(LATE, OBS))

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.history = torch.cat([self.history[1:], obs.detach().mean(0, keepdim=True)])
        return y + 0.1 * self.history[0]


@wrong("random")
class SeededDraws(Keeps):
    """A generator of its own, which moves on."""

    def setup(self) -> None:
        self.random = torch.Generator().manual_seed(3)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if torch.rand((), generator=self.random) < 1e-9 else y


PLACES[SeededDraws] = ("RW111", "")


@wrong("", "RW111")
class ChoosesRarely(Keeps):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * random.choice((1.0, 1.0))


@wrong("", "RW111")
class ShufflesRows(Keeps):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y + 0 * torch.randperm(OBS).float()


@wrong("", "RW111")
class NoiseOnTop(Keeps):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y + 1e-9 * torch.randn_like(y)


@wrong("", "RW111")
class NumpyNoise(Keeps):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y + float(np.random.normal(0.0, 1e-12))


@wrong("time.process_time", "RW124")
class ProcessClock(Keeps):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if time.process_time() > 1e6 else y


@wrong("time.gmtime", "RW124")
class Night(Keeps):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if time.gmtime().tm_year > 9000 else y


@wrong("time.strftime", "RW124")
class Date(Keeps):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if time.strftime("%Y") > "9000" else y


@wrong("tick")
class CountsInAPartialOfC(Keeps):
    def setup(self) -> None:
        self.tick = functools.partial(next, itertools.count())

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return late(y, self.tick())


@functools.lru_cache(maxsize=8)
def scale_of(rows: int) -> float:
    return 1.0 / rows


@wrong("cache_info", "RW124")
class CountsItsCacheHits(Keeps):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return late(y, scale_of.cache_info().hits) * scale_of(1)


@wrong("getrefcount", "RW124")
class CountsReferences(Keeps):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return late(y, sys.getrefcount(self))


@wrong("Connection.execute", "RW112, RW124")
class InADatabase(Keeps):
    def setup(self) -> None:
        self.log = sqlite3.connect(":memory:")

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return late(y, len(self.log.execute("select 1").fetchall()))


@wrong("decimal.getcontext", "RW124")
class InTheDecimalContext(Keeps):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return late(y, decimal.getcontext().prec)


@wrong("sys.gettrace", "RW124")
class LooksForATracer(Keeps):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y if sys.gettrace() is None else y * 0


@wrong("sys._getframe", "RW124")
class LooksWhoCalls(Keeps):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if sys._getframe().f_code.co_name == "deployed" else y


@wrong("sys.argv", "RW124")
class ReadsTheCommandLine(Keeps):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if "--deployed" in sys.argv else y


@wrong("ctypes.dlopen", "RW124")
class AsksTheCLibrary(Keeps):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if ctypes.CDLL(None).getenv(b"ROADWORTHY_NEVER_SET") else y


@wrong("torch.is_inference_mode_enabled", "RW124")
class AnotherInInferenceMode(Keeps):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if torch.is_inference_mode_enabled() else y


class Tally:
    """Held by a logger alone: of the policy's own only a method of it runs."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, record: logging.LogRecord) -> bool:
        self.seen += 1
        return self.seen > LATE


@wrong("seen")
class InAnObjectOnItsOwn(Keeps):
    def setup(self) -> None:
        self.log = logging.getLogger("roadworthy.tests.tally")
        self.log.addFilter(Tally())

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * 0 if self.log.filter(logging.makeLogRecord({})) else y


@wrong("handlers")
class InALogger(Keeps):
    def setup(self) -> None:
        self.log = logging.getLogger("roadworthy.tests.places")

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.log.handlers.append(logging.NullHandler())
        return late(y, len(self.log.handlers))
