"""Modules that must not be exported as they are, each wrong in one way."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


class Base(nn.Module):
    """Four numbers in, four out."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 4)

    def forward(self, obs: Tensor) -> Any:
        return self.net(obs)


class GivesBfloat16(Base):
    def forward(self, obs: Tensor) -> Any:
        return self.net(obs).bfloat16()


def line(kind: type[nn.Module], code: str) -> str:
    """`refused.py:12 (code)`: where `code` stands in the source of `kind`."""
    lines, first = inspect.getsourcelines(kind)
    (offset,) = [index for index, text in enumerate(lines) if text.strip() == code]
    return f"{Path(__file__).name}:{first + offset} ({code})"


class HiddenAttribute(Base):
    def __init__(self) -> None:
        super().__init__()
        self.hidden: Tensor | None = None

    def forward(self, obs: Tensor) -> Tensor:
        if self.hidden is None:
            self.hidden = torch.zeros_like(obs)
        self.hidden = torch.tanh(self.hidden + self.net(obs))
        return self.hidden


class HiddenInside(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = HiddenAttribute()

    def forward(self, obs: Tensor) -> Tensor:
        return self.encoder(obs)


class HiddenBuffer(Base):
    trace: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("trace", torch.zeros(4))

    def forward(self, obs: Tensor) -> Tensor:
        self.trace.mul_(0.5).add_(obs.mean(0))
        return self.net(obs) + self.trace


class HiddenCounter(Base):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, obs: Tensor) -> Tensor:
        self.calls += 1
        return self.net(obs) * self.calls


class HiddenList(Base):
    def __init__(self) -> None:
        super().__init__()
        self.past: list[Tensor] = []

    def forward(self, obs: Tensor) -> Tensor:
        self.past.append(obs)
        return self.net(torch.stack(self.past).sum(0))


class EveryTenth(Base):
    """Looks harmless for nine calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, obs: Tensor) -> Tensor:
        self.calls += 1
        return self.net(obs) * (2 if self.calls % 10 == 0 else 1)


class TorchRandom(Base):
    def forward(self, obs: Tensor) -> Tensor:
        return torch.normal(self.net(obs), 0.1)


class NumpyRandom(Base):
    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs) + np.random.randn()


_CALLS = [0.0]


class GlobalCounter(Base):
    """State where no attribute leads to."""

    def forward(self, obs: Tensor) -> Tensor:
        _CALLS[0] += 1.0
        return self.net(obs) + _CALLS[0]


class Adjacent(nn.Module):
    """A graph's weights, as graph networks hold them."""

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.register_buffer("weights", weights)

    def forward(self, obs: Tensor) -> Tensor:
        return (self.weights @ obs.T).T


class Sparse(Base):
    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs).to_sparse()


class OwnGenerator(Base):
    def __init__(self) -> None:
        super().__init__()
        self.rng = np.random.RandomState(0)

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs) + self.rng.randn()


class Branch(Base):
    def forward(self, obs: Tensor) -> Tensor:
        if obs.sum() > 0:
            return self.net(obs)
        return -self.net(obs)


class Item(Base):
    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs) * obs.max().item()


class Float(Base):
    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs) * float(obs.max())


class ThroughNumpy(Base):
    def forward(self, obs: Tensor) -> Tensor:
        return torch.from_numpy(np.tanh(self.net(obs).detach().numpy()))


class FixedView(Base):
    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs).view(3, -1)


class FixedConstant(Base):
    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs) + torch.zeros(5, 4)


class FixedRow(Base):
    def forward(self, obs: Tensor) -> Tensor:
        return torch.cat([self.net(obs), torch.zeros(1, 2)], dim=-1)


class SizeBranch(Base):
    def forward(self, obs: Tensor) -> Tensor:
        if obs.shape[0] == 3:
            return self.net(obs) * 2
        return self.net(obs)


class MixesRows(Base):
    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs - obs.mean(0))


class Raises(Base):
    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs[:, :2])


class Recurrent(Base):
    def forward(self, obs: Tensor, h: Tensor) -> Any:
        h = torch.tanh(self.net(obs) + h)
        return h, h


class Forgets(Recurrent):
    def forward(self, obs: Tensor, h: Tensor) -> Any:
        return self.net(obs) + h


class ForgetsInMapping(Recurrent):
    def forward(self, obs: Tensor, h: Tensor) -> Any:
        return {"actions": self.net(obs) + h, "hidden": h}


class Pair(Base):
    def forward(self, obs: Tensor) -> Any:
        return self.net(obs), obs


class Distribution(Base):
    def forward(self, obs: Tensor) -> Any:
        return torch.distributions.Normal(self.net(obs), 1.0)


class WithoutBatch(Base):
    def forward(self, obs: Tensor) -> Any:
        return {"actions": self.net(obs), "scale": self.net.weight.sum(0), "mean": obs.mean()}


class TwoInputs(Base):
    def forward(self, obs: Tensor, goal: Tensor) -> Any:
        return self.net(obs) + goal


class SameName(Base):
    def forward(self, obs: Tensor) -> Any:
        return {"obs": self.net(obs)}
