"""Policies that keep their state as people do: numbers, containers, what the first call makes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

import roadworthy as rw
from tests.capture.class_styles.classes import ACT, OBS, mlp

FRAMES = 4


class Counting(nn.Module):
    """A gait clock that counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.count = mlp(OBS + 1, ACT), 0

    def forward(self, obs: Tensor) -> Tensor:
        self.count += 1
        phase = torch.sin(torch.ones_like(obs[:, :1]) * self.count * 0.05)
        out: Tensor = self.net(torch.cat([obs, phase], -1))
        return out


class Phase(nn.Module):
    """As walk-these-ways' deployment: a float that goes round."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.phase = mlp(OBS + 1, ACT), 0.0

    def forward(self, obs: Tensor) -> Tensor:
        self.phase = (self.phase + 0.02 * 3.0) % 1.0
        clock = torch.full((obs.shape[0], 1), self.phase)
        out: Tensor = self.net(torch.cat([obs, torch.sin(6.28 * clock)], -1))
        return out


class NumpyClock(nn.Module):
    """A gait clock that NumPy computes."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.steps = mlp(OBS, ACT), 0

    def forward(self, obs: Tensor) -> Tensor:
        self.steps += 1
        out: Tensor = self.net(obs) + 0.1 * np.sin(np.pi * 0.2 * self.steps)
        return out


class ScalarTensor(nn.Module):
    """A tensor without axes."""

    level: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBS, ACT)
        self.register_buffer("level", torch.tensor(0.0))

    def forward(self, obs: Tensor) -> Tensor:
        self.level = 0.9 * self.level + 0.1
        out: Tensor = self.net(obs * (1 + self.level))
        return out


class Frames(nn.Module):
    """A list of the last observations, the oldest first."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBS * FRAMES, ACT)
        self.frames = [torch.zeros(1, OBS) for _ in range(FRAMES)]

    def forward(self, obs: Tensor) -> Tensor:
        self.frames.pop(0)
        self.frames.append(obs)
        out: Tensor = self.net(torch.cat(list(self.frames), -1))
        return out


class Queue(Frames):
    """The same in a deque."""

    def __init__(self) -> None:
        super().__init__()
        self.frames = deque([torch.zeros(1, OBS)] * FRAMES, maxlen=FRAMES)  # type: ignore[assignment]

    def forward(self, obs: Tensor) -> Tensor:
        self.frames.append(obs)
        out: Tensor = self.net(torch.cat(list(self.frames), -1))
        return out


class Keyed(nn.Module):
    """As Dreamer's actors: a dict of tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.LSTMCell(OBS, 8), nn.Linear(8, ACT)
        self.state = {"h": torch.zeros(1, 8), "c": torch.zeros(1, 8)}

    def forward(self, obs: Tensor) -> Tensor:
        h, c = self.cell(obs, (self.state["h"], self.state["c"]))
        self.state = {"h": h, "c": c}
        out: Tensor = self.head(h)
        return out


@dataclass
class Inner:
    deter: Tensor
    steps: int = 0
    extra: dict[str, Any] = field(default_factory=dict)


class Nested(nn.Module):
    """A dataclass that holds a tensor, a counter and a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(OBS, 8), nn.Linear(8, ACT)
        self.belief = Inner(torch.zeros(1, 8), 0, {"last": (torch.zeros(1, ACT),), "name": "rssm"})

    def forward(self, obs: Tensor) -> Tensor:
        belief = self.belief
        deter = self.cell(obs, belief.deter)
        action: Tensor = self.head(deter) + 0.1 * belief.extra["last"][0] + 0.01 * belief.steps
        extra = {"last": (action,), "name": "rssm"}
        self.belief = Inner(deter, belief.steps + 1, extra)
        return action


class Ring(nn.Module):
    """A ring buffer and its pointer, for one robot."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBS * FRAMES, ACT)
        self.buffer, self.at = torch.zeros(1, FRAMES, OBS), 0

    def forward(self, obs: Tensor) -> Tensor:
        self.buffer[:, self.at] = obs
        self.at = (self.at + 1) % FRAMES
        out: Tensor = self.net(self.buffer.flatten(1)) + self.buffer[:, self.at][:, :ACT]
        return out


class Rowless(nn.Module):
    """The last action of one robot, without a batch axis."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.last = mlp(OBS + ACT, ACT), torch.zeros(ACT)

    def forward(self, obs: Tensor) -> Tensor:
        last = self.last.expand(obs.shape[0], ACT)
        action: Tensor = self.net(torch.cat([obs, last], -1))
        self.last = action
        return action


class FirstHistory(nn.Module):
    """As HIM: a history that the first observation fills."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBS * FRAMES, ACT)
        self.history: Tensor | None = None

    def forward(self, obs: Tensor) -> Tensor:
        if self.history is None:
            self.history = obs.unsqueeze(1).repeat(1, FRAMES, 1)
        else:
            self.history = torch.cat([self.history[:, 1:], obs.unsqueeze(1)], 1)
        out: Tensor = self.net(self.history.flatten(1))
        return out


class FirstQueue(nn.Module):
    """As parkour's deployment: an empty deque is filled by the first observation."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBS * FRAMES, ACT)
        self.history: deque[Tensor] = deque(maxlen=FRAMES)

    def forward(self, obs: Tensor) -> Tensor:
        while len(self.history) < FRAMES:
            self.history.append(obs)
        self.history.append(obs)
        out: Tensor = self.net(torch.cat(list(self.history), -1))
        return out


class Average(nn.Module):
    """An exponential average that starts at the first observation."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBS, ACT)
        self.ema: Tensor | None = None

    def forward(self, obs: Tensor) -> Tensor:
        self.ema = obs if self.ema is None else 0.8 * self.ema + 0.2 * obs
        out: Tensor = self.net(obs - self.ema)
        return out


class Tared(nn.Module):
    """A sensor whose first reading is its zero."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBS, ACT)
        self.started, self.zero = False, torch.zeros(1, OBS)

    def forward(self, obs: Tensor) -> Tensor:
        if not self.started:
            self.zero = obs.clone()
            self.started = True
        out: Tensor = self.net(obs - self.zero)
        return out


class Ensembled(nn.Module):
    """As ACT: a plan of actions is made at the first step and then followed and blended."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBS, ACT * FRAMES)
        self.plan: Tensor | None = None

    def forward(self, obs: Tensor) -> Tensor:
        new = self.net(obs).reshape(-1, FRAMES, ACT)
        if self.plan is None:
            self.plan = new
        else:
            shifted = torch.cat([self.plan[:, 1:], self.plan[:, -1:]], 1)
            self.plan = 0.5 * shifted + 0.5 * new
        return self.plan[:, 0]


FIRST = "first input"

STATES: dict[str, tuple[Callable[[], nn.Module], dict[str, Any]]] = {
    "int": (Counting, {"count": "count"}),
    "float": (Phase, {"phase": "phase"}),
    "numpy clock": (NumpyClock, {"steps": "steps"}),
    "scalar": (ScalarTensor, {"level": "level"}),
    "list": (Frames, {"frames": "frames"}),
    "deque": (Queue, {"frames": "frames"}),
    "dict": (Keyed, {"state": "state"}),
    "dict items": (Keyed, {"h": "state.h", "c": "state.c"}),
    "nested": (Nested, {"belief": "belief"}),
    "ring": (Ring, {"buffer": "buffer", "at": "at"}),
    "rowless": (Rowless, {"last": "last"}),
    "first history": (FirstHistory, {"history": rw.Attribute("history", initial=FIRST)}),
    "first deque": (FirstQueue, {"history": rw.Attribute("history", initial=FIRST)}),
    "average": (Average, {"ema": rw.Attribute("ema", initial=FIRST)}),
    "tared": (
        Tared,
        {
            "zero": rw.Attribute("zero", initial=FIRST),
            "started": rw.Attribute("started", initial=FIRST),
        },
    ),
    "plan": (Ensembled, {"plan": rw.Attribute("plan", initial=FIRST)}),
}


class StateFirst(nn.Module):
    """As recurrent policies of rl_games: the state comes before the action."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(OBS, 8), nn.Linear(8, ACT)

    def forward(self, obs: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.cell(obs, hidden)
        return hidden, self.head(hidden)


class Step(NamedTuple):
    actions: Tensor
    carry: Tensor
    value: Tensor


class Named(StateFirst):
    def forward(self, obs: Tensor, hidden: Tensor) -> Step:  # type: ignore[override]
        hidden = self.cell(obs, hidden)
        return Step(self.head(hidden), hidden, hidden[:, :1])


class InADict(StateFirst):
    def forward(self, obs: Tensor, hidden: Tensor) -> dict[str, Any]:  # type: ignore[override]
        hidden = self.cell(obs, hidden)
        return {"info": {"rnn": hidden, "value": hidden[:, :1]}, "mu": self.head(hidden)}
