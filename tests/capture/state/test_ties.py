"""Memory under two names: what is put into one does not reach the other, so it is refused."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw

FIRST = "first input"


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Linear(16, 4)

    def act(self, *parts: Tensor) -> Tensor:
        action: Tensor = self.net(torch.cat(parts, dim=-1))
        return action


class View(Base):
    def __init__(self) -> None:
        super().__init__()
        self.history = torch.zeros(1, 3, 8)
        self.newest = self.history[:, -1]

    def forward(self, obs: Tensor) -> Tensor:
        self.history[:, :-1] = self.history[:, 1:].clone()
        self.history[:, -1] = obs
        return self.act(self.newest, self.history[:, 0])


class ViewOfABuffer(Base):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(1, 13))
        self.velocity = self.state[:, 5:]

    def forward(self, obs: Tensor) -> Tensor:
        self.state[:, 5:] = 0.9 * self.state[:, 5:] + 0.1 * obs
        return self.act(obs, self.velocity)


class InADict(Base):
    def __init__(self) -> None:
        super().__init__()
        self.mean = torch.zeros(1, 8)
        self.state = {"mean": self.mean}

    def forward(self, obs: Tensor) -> Tensor:
        self.mean.mul_(0.9).add_(obs, alpha=0.1)
        return self.act(obs, self.state["mean"])


class MadeByTheFirstCall(Base):
    def __init__(self) -> None:
        super().__init__()
        self.one: Tensor | None = None
        self.other: Tensor | None = None

    def forward(self, obs: Tensor) -> Tensor:
        if self.one is None:
            self.one = self.other = torch.zeros_like(obs)
        self.one.mul_(0.9).add_(obs, alpha=0.1)
        assert self.other is not None
        return self.act(obs, self.other)


class Reader:
    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


class InAnObject(Base):
    def __init__(self) -> None:
        super().__init__()
        self.mean = torch.zeros(1, 8)
        self.reader = Reader(self.mean)

    def forward(self, obs: Tensor) -> Tensor:
        self.mean.mul_(0.9).add_(0.1 * obs)
        return self.act(obs, 2 * self.reader.tensor)


class InAClosure(Base):
    def __init__(self) -> None:
        super().__init__()
        held = torch.zeros(1, 8)
        self.mean = held
        self.read: Callable[[], Tensor] = lambda: held

    def forward(self, obs: Tensor) -> Tensor:
        self.mean.mul_(0.9).add_(0.1 * obs)
        return self.act(obs, self.read())


class Encoder(nn.Module):
    def __init__(self, queue: deque[Tensor]) -> None:
        super().__init__()
        self.queue = queue
        self.net = nn.Linear(24, 8)

    def forward(self) -> Tensor:
        latent: Tensor = self.net(torch.cat(list(self.queue), dim=-1))
        return latent


class SharedQueue(Base):
    def __init__(self) -> None:
        super().__init__()
        self.queue = deque([torch.zeros(1, 8)] * 3, maxlen=3)
        self.encoder = Encoder(self.queue)

    def forward(self, obs: Tensor) -> Tensor:
        self.queue.append(obs)
        return self.act(obs, self.encoder())


def first(path: str) -> rw.Attribute:
    return rw.Attribute(path, initial=FIRST)


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        (View, {"memory": {"h": "history", "n": "newest"}}, "newest is the same tensor, or a view"),
        (ViewOfABuffer, {"memory": {"s": "state", "v": "velocity"}}, "velocity is the same tensor"),
        (InADict, {"memory": {"a": "mean", "b": "state.mean"}}, "state.mean is the same tensor"),
        (
            MadeByTheFirstCall,
            {"memory": {"a": first("one"), "b": first("other")}},
            "other is the same tensor",
        ),
        (InAnObject, {"memory": {"a": "mean", "b": "reader.tensor"}}, "reader.tensor is the same"),
        (InAClosure, {"memory": {"a": "mean"}, "batch": 1}, "read.held is the same tensor"),
        (SharedQueue, {"memory": {"q": "queue"}, "batch": 1}, "encoder.queue is the same deque"),
        (
            SharedQueue,
            {"memory": {"q": "queue", "p": "encoder.queue"}},
            "encoder.queue is the same deque",
        ),
    ],
)
def test_memory_under_two_names_is_refused(
    kind: type[nn.Module], options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(rw.ExportError) as caught:
        rw.export(kind(), tmp_path / "b", example={"obs": torch.zeros(1, 8)}, **options)
    assert [each.code for each in caught.value.findings] == ["RW197"]
    assert said in str(caught.value)
    assert not (tmp_path / "b").exists()


class Logged(Base):
    """Two names that a call binds anew: nothing is changed in place, and nothing is cut."""

    def __init__(self) -> None:
        super().__init__()
        self.last = torch.zeros(1, 8)
        self.before = torch.zeros(1, 8)
        self.log = {"last": self.last}

    def forward(self, obs: Tensor) -> Tensor:
        action = self.act(self.last, self.before)
        self.before = self.last
        self.last = obs * 0.5
        self.log["last"] = self.last
        return action


def test_names_that_are_bound_anew_are_not_refused(tmp_path: Path) -> None:
    module, twin = Logged(), Logged()
    memory = {"last": "last", "before": "before"}
    example = {"obs": torch.zeros(1, 8)}
    rw.export(module, tmp_path / "b", example=example, memory=memory, ignore=["log"])
    policy, rng = rw.load(tmp_path / "b"), np.random.default_rng(0)
    for _ in range(6):
        obs = rng.standard_normal((1, 8)).astype(np.float32)
        with torch.no_grad():
            expected = twin(torch.from_numpy(obs.copy())).numpy()
        assert np.allclose(policy.act(obs), expected, atol=1e-6)
