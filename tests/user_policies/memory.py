"""Where people keep what persists: attributes, buffers, containers, arguments, results."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import roadworthy as rw
from tests.user_policies.cases import HINT, Family, carrying, mlp, obs

people = Family("memory")

OBS, ACT, HIDDEN, FRAMES = 8, 3, 12, 4


class KeptHidden(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head, self.hidden = nn.GRUCell(OBS, HIDDEN), nn.Linear(HIDDEN, ACT), None

    def forward(self, obs: Tensor) -> Tensor:
        self.hidden = self.cell(obs, self.hidden)
        action: Tensor = self.head(self.hidden)
        return action


@people.case(obs(OBS), then=HINT)
def hidden_attribute() -> nn.Module:
    return KeptHidden()


class KeptBuffers(nn.Module):
    """State in buffers, written in place, as scripted exporters do."""

    h: Tensor
    c: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(OBS, HIDDEN), nn.Linear(HIDDEN, ACT)
        self.register_buffer("h", torch.zeros(1, 1, HIDDEN))
        self.register_buffer("c", torch.zeros(1, 1, HIDDEN))

    def forward(self, obs: Tensor) -> Tensor:
        out, (h, c) = self.lstm(obs.unsqueeze(0), (self.h, self.c))
        self.h[:], self.c[:] = h, c
        action: Tensor = self.head(out.squeeze(0))
        return action


@people.case(obs(OBS), then=HINT)
def buffers_in_place() -> nn.Module:
    return KeptBuffers()


class KeptDeque(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBS * FRAMES, 16, ACT)
        self.frames = deque([torch.zeros(1, OBS)] * FRAMES, maxlen=FRAMES)

    def forward(self, obs: Tensor) -> Tensor:
        self.frames.append(obs)
        action: Tensor = self.net(torch.cat(tuple(self.frames), dim=-1))
        return action


@people.case(obs(OBS), then=HINT)
def frames_in_a_deque() -> nn.Module:
    return KeptDeque()


class KeptList(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBS * FRAMES, 16, ACT)
        self.frames = [torch.zeros(1, OBS) for _ in range(FRAMES)]

    def forward(self, obs: Tensor) -> Tensor:
        self.frames.pop(0)
        self.frames.append(obs)
        action: Tensor = self.net(torch.cat(self.frames, dim=-1))
        return action


@people.case(obs(OBS), then=HINT)
def frames_in_a_list() -> nn.Module:
    return KeptList()


class KeptDict(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.LSTMCell(OBS, HIDDEN), nn.Linear(HIDDEN, ACT)
        self.state = {"h": torch.zeros(1, HIDDEN), "c": torch.zeros(1, HIDDEN)}

    def forward(self, obs: Tensor) -> Tensor:
        self.state["h"], self.state["c"] = self.cell(obs, (self.state["h"], self.state["c"]))
        action: Tensor = self.head(self.state["h"])
        return action


@people.case(obs(OBS), then=HINT)
def state_in_a_dict() -> nn.Module:
    return KeptDict()


@dataclass
class Belief:
    mean: Tensor
    count: int = 0


class KeptDataclass(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net, self.belief = mlp(2 * OBS, 16, ACT), Belief(torch.zeros(1, OBS))

    def forward(self, obs: Tensor) -> Tensor:
        self.belief.count += 1
        self.belief.mean = self.belief.mean + (obs - self.belief.mean) / self.belief.count
        action: Tensor = self.net(torch.cat([obs, self.belief.mean], -1))
        return action


@people.case(obs(OBS), then=HINT)
def running_mean_in_a_dataclass() -> nn.Module:
    return KeptDataclass()


class Ring(nn.Module):
    """A ring buffer with a pointer that is a Python number."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBS * FRAMES, 16, ACT)
        self.buffer, self.at = torch.zeros(1, FRAMES, OBS), 0

    def forward(self, obs: Tensor) -> Tensor:
        self.buffer[:, self.at] = obs
        self.at = (self.at + 1) % FRAMES
        action: Tensor = self.net(self.buffer.flatten(1))
        return action


@people.case(obs(OBS), then=HINT)
def ring_buffer() -> nn.Module:
    return Ring()


class Ema(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBS, 16, ACT)
        self.smooth: Tensor | None = None

    def forward(self, obs: Tensor) -> Tensor:
        self.smooth = obs if self.smooth is None else 0.9 * self.smooth + 0.1 * obs
        action: Tensor = self.net(obs - self.smooth)
        return action


@people.case(obs(OBS), then=HINT)
def moving_average() -> nn.Module:
    return Ema()


class FirstFills(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBS * FRAMES, 16, ACT)
        self.history: Tensor | None = None

    def forward(self, obs: Tensor) -> Tensor:
        if self.history is None:
            self.history = obs.unsqueeze(1).repeat(1, FRAMES, 1)
        else:
            self.history = torch.cat([self.history[:, 1:], obs.unsqueeze(1)], dim=1)
        action: Tensor = self.net(self.history.flatten(1))
        return action


@people.case(obs(OBS), then=HINT)
def first_fills_the_history() -> nn.Module:
    return FirstFills()


class Pid(nn.Module):
    """The network sets gains; integral and last error are kept, with anti-windup."""

    def __init__(self) -> None:
        super().__init__()
        self.gains = mlp(OBS, 16, 3 * ACT)
        self.integral, self.last = torch.zeros(1, ACT), torch.zeros(1, ACT)

    def forward(self, obs: Tensor, error: Tensor) -> Tensor:
        p, i, d = torch.nn.functional.softplus(self.gains(obs)).chunk(3, -1)
        self.integral = torch.clamp(self.integral + 0.01 * error, -1.0, 1.0)
        command = p * error + i * self.integral + d * (error - self.last)
        self.last = error
        return command.clamp(-5, 5)


@people.case({"obs": torch.zeros(1, OBS), "error": torch.zeros(1, ACT)}, then=HINT)
def pid() -> nn.Module:
    return Pid()


class Counting(nn.Module):
    """Acts anew every fourth step, and repeats itself between."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.count, self.held = mlp(OBS, 16, ACT), torch.zeros(1, 1), torch.zeros(1, ACT)

    def forward(self, obs: Tensor) -> Tensor:
        self.held = torch.where(self.count % 4 == 0, self.net(obs), self.held)
        self.count = self.count + 1
        return self.held


@people.case(obs(OBS), then=HINT)
def repeats_itself() -> nn.Module:
    return Counting()


class Handed(nn.Module):
    """State in, state out, as arguments and results."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.LSTM(OBS, HIDDEN, batch_first=True), nn.Linear(HIDDEN, ACT)

    def forward(self, obs: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        out, (h, c) = self.rnn(obs.unsqueeze(1), (h, c))
        return self.head(out.squeeze(1)), h, c


ZEROS = torch.zeros(1, 1, HIDDEN)


def handed_step(module: nn.Module, given: Any, state: Any) -> Any:
    action, h, c = module(given["obs"], *state)
    return action, (h, c)


@people.case(
    obs(OBS),
    memory={"h": ZEROS, "c": ZEROS},
    live=carrying(handed_step, lambda: (ZEROS, ZEROS)),
)
def handed_in_and_out() -> nn.Module:
    return Handed()


# The state as one more input: its rows are not the first axis.
@people.case({"obs": torch.zeros(1, OBS), "h": ZEROS, "c": ZEROS}, then=HINT, refused="RW101")
def state_as_an_input() -> nn.Module:
    return Handed()


class Optional(nn.Module):
    """`hidden=None` starts an episode."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.GRU(OBS, HIDDEN), nn.Linear(HIDDEN, ACT)

    def forward(self, obs: Tensor, hidden: Tensor | None = None) -> tuple[Tensor, Tensor]:
        out, hidden = self.rnn(obs.unsqueeze(0), hidden)
        return self.head(out.squeeze(0)), hidden


@people.case(
    obs(OBS),
    then=HINT,
    live=carrying(lambda m, given, hidden: m(given["obs"], hidden), lambda: None),
)
def hidden_left_out() -> nn.Module:
    return Optional()


class StateFirst(Optional):
    def forward(self, obs: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        out, hidden = self.rnn(obs.unsqueeze(0), hidden)
        return hidden, self.head(out.squeeze(0))


@people.case(
    obs(OBS),
    memory={"hidden": rw.Argument(ZEROS, returned=0)},
    live=carrying(lambda m, given, hidden: m(given["obs"], hidden)[::-1], lambda: ZEROS),
)
def state_comes_first() -> nn.Module:
    return StateFirst()


class Step(NamedTuple):
    action: Tensor
    hidden: Tensor
    value: Tensor


class Named(Optional):
    def forward(self, obs: Tensor, hidden: Tensor) -> Step:  # type: ignore[override]
        out, hidden = self.rnn(obs.unsqueeze(0), hidden)
        return Step(self.head(out.squeeze(0)), hidden, out.squeeze(0).mean(-1))


def named_step(module: nn.Module, given: Any, hidden: Tensor) -> Any:
    step = module(given["obs"], hidden)
    return (step.action, step.value), step.hidden


@people.case(obs(OBS), memory={"hidden": ZEROS}, live=carrying(named_step, lambda: ZEROS))
def state_in_a_named_tuple() -> nn.Module:
    return Named()


class Hierarchical(nn.Module):
    """A goal that the manager sets every eighth step; the worker and its GRU act at each."""

    def __init__(self) -> None:
        super().__init__()
        self.manager, self.worker = mlp(OBS, 16, 4), nn.GRUCell(OBS + 4, HIDDEN)
        self.head = nn.Linear(HIDDEN, ACT)
        self.goal, self.hidden = torch.zeros(1, 4), torch.zeros(1, HIDDEN)
        self.clock = torch.zeros(1, 1, dtype=torch.long)

    def forward(self, obs: Tensor) -> Tensor:
        fresh = torch.nn.functional.normalize(self.manager(obs), dim=-1)
        self.goal = torch.where(self.clock % 8 == 0, fresh, self.goal)
        self.clock = self.clock + 1
        self.hidden = self.worker(torch.cat([obs, self.goal], -1), self.hidden)
        action: Tensor = self.head(self.hidden)
        return action


@people.case(obs(OBS), then=HINT)
def hierarchical() -> nn.Module:
    return Hierarchical()


class Delayed(nn.Module):
    """A delay line of three commands, and a low-pass filter of second order."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBS, 16, ACT)
        self.line = [torch.zeros(1, ACT)] * 3
        self.x, self.y = [torch.zeros(1, ACT)] * 2, [torch.zeros(1, ACT)] * 2

    def forward(self, obs: Tensor) -> Tensor:
        command, self.line = self.line[0], [*self.line[1:], self.net(obs)]
        out = (
            0.067 * command
            + 0.135 * self.x[0]
            + 0.067 * self.x[1]
            + 1.143 * self.y[0]
            - 0.413 * self.y[1]
        )
        self.x, self.y = [command, self.x[0]], [out, self.y[0]]
        return out


@people.case(obs(OBS), then=HINT)
def delayed_and_filtered() -> nn.Module:
    return Delayed()
