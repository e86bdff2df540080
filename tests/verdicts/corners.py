"""Policies whose mistakes show only where few samples go: far out, at a corner, after a while."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, nn

import roadworthy as rw
from tests.verdicts.mutations import Mutation

OBS = 6


def _net(outputs: int = 3, inputs: int = OBS) -> nn.Linear:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return nn.Linear(inputs, outputs)


class Policy(nn.Module):
    """A linear policy around a function of the observation."""

    def __init__(self, function: Callable[..., Tensor], inputs: int = OBS) -> None:
        super().__init__()
        self.net = _net(inputs=inputs)
        self.function = function

    def forward(self, obs: Tensor) -> Tensor:
        return self.function(self.net, obs)


def source(function: Callable[..., Tensor], inputs: int = OBS, **description: Any) -> rw.Source:
    example = {"obs": torch.zeros(1, inputs)}
    return rw.Source(Policy(function, inputs), **({"example": example} | description))


def with_limits(low: Any, high: Any, function: Callable[..., Tensor]) -> rw.Source:
    return source(function, about={"obs": rw.About(low=low, high=high)})


def mixing_beyond(limit: float) -> Callable[..., Tensor]:
    """The rows of a batch exchanged where an observation is large."""

    def mixes(net: nn.Module, obs: Tensor) -> Tensor:
        return net(torch.where(obs.abs() > limit, obs.flip(0), obs))

    return mixes


def switching_at(limit: float) -> Callable[..., Tensor]:
    def switches(net: nn.Module, obs: Tensor) -> Tensor:
        return torch.where(obs[:, :1].abs() > limit, torch.ones(1), net(obs).tanh())

    return switches


def switching_at_length(limit: float) -> Callable[..., Tensor]:
    def switches(net: nn.Module, obs: Tensor) -> Tensor:
        far = obs.norm(dim=-1, keepdim=True) > limit
        return torch.where(far, torch.ones(1), net(obs).tanh())

    return switches


def switching_after_normalizing(limit: float) -> Callable[..., Tensor]:
    mean, std = torch.linspace(40.0, 90.0, OBS), torch.linspace(0.5, 3.0, OBS)

    def switches(net: nn.Module, obs: Tensor) -> Tensor:
        scaled = (obs - mean) / std
        return torch.where(scaled[:, 2:3] > limit, torch.ones(1), net(scaled).tanh())

    return switches


def constant_moved(before: float, after: float) -> Mutation:
    """Another number wherever the graph has the first as a constant of one element."""

    def move(model: onnx.ModelProto, bundle: rw.Bundle) -> None:
        moved = 0
        tensors = list(model.graph.initializer)
        tensors += [a.t for n in model.graph.node for a in n.attribute if n.op_type == "Constant"]
        for tensor in tensors:
            values = numpy_helper.to_array(tensor)
            if values.size == 1 and float(values.ravel()[0]) == before:
                changed = np.full(values.shape, after, dtype=values.dtype)
                tensor.CopyFrom(numpy_helper.from_array(changed, tensor.name))
                moved += 1
        assert moved, f"the graph has no constant {before}"

    return move


class Delay(nn.Module):
    """Acts on what it saw `steps` steps ago."""

    def __init__(self, steps: int, place: int = 0) -> None:
        super().__init__()
        self.net, self.steps, self.place = _net(), steps, place

    def forward(self, obs: Tensor, queue: Tensor) -> tuple[Tensor, Tensor]:
        queue = torch.cat([queue[:, 1:], obs.unsqueeze(1)], dim=1)
        return self.net(queue[:, self.place]), queue

    @classmethod
    def source(cls, steps: int, place: int = 0) -> rw.Source:
        memory = {"queue": torch.zeros(1, steps, OBS)}
        return rw.Source(cls(steps, place), example={"obs": torch.zeros(1, OBS)}, memory=memory)


class Rolled(Delay):
    def forward(self, obs: Tensor, queue: Tensor) -> tuple[Tensor, Tensor]:
        queue = torch.roll(queue, -1, dims=1).clone()
        queue[:, -1] = obs
        return self.net(queue[:, self.place]), queue


class Chain(nn.Module):
    """A delay whose every step is a memory of its own, as a deque is carried along."""

    def __init__(self, place: int = 0) -> None:
        super().__init__()
        self.net, self.place = _net(), place

    def forward(self, obs: Tensor, queue: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        return self.net(queue[self.place]), (*queue[1:], obs)


class Counter(nn.Module):
    """Does something else after a number of steps."""

    def __init__(self, limit: float, increment: float) -> None:
        super().__init__()
        self.net, self.limit, self.increment = _net(), limit, increment

    def forward(self, obs: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        count = count + self.increment
        return torch.where(count > self.limit, torch.ones(1), self.net(obs)), count

    @classmethod
    def source(cls, limit: float, increment: float) -> rw.Source:
        memory = {"count": torch.zeros(1, 1)}
        example = {"obs": torch.zeros(1, OBS)}
        return rw.Source(cls(limit, increment), example=example, memory=memory)


class Stall(Counter):
    """Does something else after many steps in which nothing moved."""

    def forward(self, obs: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        still = (obs.abs() < 0.05).all(dim=-1, keepdim=True)
        count = torch.where(still, count + self.increment, torch.zeros(1))
        return torch.where(count > self.limit, torch.ones(1), self.net(obs)), count


class Attention(nn.Module):
    """Looks at tokens through a mask (batch, 1, 1, tokens); True is visible."""

    def __init__(self, empty: str) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(6)
            self.key, self.head = nn.Linear(5, 8), nn.Linear(8, 3)
        self.empty = empty

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        keys = self.key(tokens)
        scores = (keys @ keys.transpose(1, 2)).unsqueeze(1)
        hidden = torch.finfo(scores.dtype).min if self.empty == "mean" else -torch.inf
        shares = scores.masked_fill(~mask, hidden).softmax(dim=-1)
        if self.empty == "zeros":
            shares = shares.nan_to_num(0.0)
        return self.head((shares.squeeze(1) @ keys).mean(dim=1))

    @classmethod
    def source(cls, empty: str) -> rw.Source:
        mask = torch.ones(1, 1, 1, 4, dtype=torch.bool)
        return rw.Source(cls(empty), example={"tokens": torch.zeros(1, 4, 5), "mask": mask})


def yaw(half_turn: float) -> Callable[..., Tensor]:
    """The heading of a quaternion (w, x, y, z); half a turn is π, not -π."""

    def heading(net: nn.Module, obs: Tensor) -> Tensor:
        w, x, y, z = obs.unbind(-1)
        sine, cosine = 2 * (w * z + x * y), 1 - 2 * (y * y + z * z)
        turned = (sine == 0) & (cosine < 0)
        angle = torch.where(turned, half_turn, (sine / (cosine.abs() + 1)).atan())
        return angle.unsqueeze(-1)

    return heading


def sign_of_zero(by_bits: bool) -> Callable[..., Tensor]:
    def sign(net: nn.Module, obs: Tensor) -> Tensor:
        return (
            torch.where((1.0 / obs) < 0, -1.0, 1.0) if by_bits else torch.where(obs < 0, -1.0, 1.0)
        )

    return sign


class Table(nn.Module):
    """A row of a table; index -1 is the last one, as everywhere in Python."""

    def __init__(self, clamps: bool) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(7)
            self.table = nn.Parameter(torch.randn(5, 3))
        self.clamps = clamps

    def forward(self, index: Tensor) -> Tensor:
        return self.table[index.clamp(min=0) if self.clamps else index]


class Chosen(nn.Module):
    """An action for each command: beyond the last known one, the last."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self.net, self.last = _net(), last

    def forward(self, obs: Tensor, command: Tensor) -> Tensor:
        return self.net(obs) * (command >= self.last).unsqueeze(-1)


def index_source(clamps: bool) -> rw.Source:
    return rw.Source(Table(clamps), example={"index": torch.zeros(1, dtype=torch.int64)})


def command_source(last: int) -> rw.Source:
    example = {"obs": torch.zeros(1, OBS), "command": torch.zeros(1, dtype=torch.int64)}
    return rw.Source(Chosen(last), example=example)


def chain_source(place: int) -> rw.Source:
    memory = {"queue": tuple(torch.zeros(1, OBS) for _ in range(12))}
    return rw.Source(Chain(place), example={"obs": torch.zeros(1, OBS)}, memory=memory)


def wrapped(period: float) -> Callable[..., Tensor]:
    def wraps(net: nn.Module, obs: Tensor) -> Tensor:
        return net(torch.where(obs.abs() > period, obs - 2 * math.pi * obs.sign(), obs))

    return wraps
