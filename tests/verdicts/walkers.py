"""Policies as users write them, each with one mistake that an exporter could freeze in silence.

The number in each name is the number of the mistake in the list that the tests go through.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

OBS = 6
ACTIONS = 3


def line(kind: type[nn.Module], code: str) -> str:
    """`walkers.py:12 (code)`: where `code` stands in the source of `kind`."""
    lines, first = inspect.getsourcelines(kind)
    (offset,) = [index for index, text in enumerate(lines) if text.strip() == code]
    return f"{Path(__file__).name}:{first + offset} ({code})"


class Walker(nn.Module):
    """A sound actor: the others differ from it in one thing."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.net = nn.Sequential(nn.Linear(OBS, 16), nn.ELU(), nn.Linear(16, ACTIONS))

    def forward(self, obs: Tensor) -> Any:
        return self.net(obs)


class RecoversWhenTilted(Walker):
    """1: another gait when the robot has fallen, chosen with `if`."""

    def forward(self, obs: Tensor) -> Tensor:
        actions = self.net(obs)
        if obs[:, 2].abs().max() > 0.9:
            actions = 0.2 * actions
        return actions


class StretchesWithSpeed(Walker):
    """2: a stride that grows with the commanded speed, read as a Python number."""

    def forward(self, obs: Tensor) -> Tensor:
        speed = float(obs[:, 3:5].norm())
        return self.net(obs) * min(1.0 + speed, 2.0)


class FiltersWithItem(Walker):
    """2: the same, with `.item()` in a condition."""

    def forward(self, obs: Tensor) -> Tensor:
        gain = 0.5 if obs[0, 0].item() > 0 else 1.0
        return gain * self.net(obs)


class RotatesWithNumpy(Walker):
    """3: gravity is turned into the body frame by an old NumPy function."""

    def forward(self, obs: Tensor) -> Tensor:
        turned = np.roll(obs.numpy(), 1, axis=-1)
        return self.net(torch.from_numpy(turned))


class RebuildsFromList(Walker):
    """3: the observation is put together from Python numbers."""

    def forward(self, obs: Tensor) -> Tensor:
        again = torch.tensor([[float(x) for x in row] for row in obs])
        return self.net(again)


class CountsSteps(Walker):
    """4: a gait clock from a step counter."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    def forward(self, obs: Tensor) -> Tensor:
        self.steps += 1
        return self.net(obs) + 0.1 * np.sin(0.2 * self.steps)


class KeepsPhase(Walker):
    """4: a gait clock from a Python float."""

    def __init__(self) -> None:
        super().__init__()
        self.phase = 0.0

    def forward(self, obs: Tensor) -> Tensor:
        self.phase = (self.phase + 0.05) % 1.0
        return self.net(obs) * (1.0 + self.phase)


class KeepsHidden(nn.Module):
    """5: a GRU whose state stays in an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(OBS, 8)
        self.head = nn.Linear(8, ACTIONS)
        self.hidden: Tensor | None = None

    def forward(self, obs: Tensor) -> Tensor:
        if self.hidden is None:
            self.hidden = obs.new_zeros(obs.shape[0], 8)
        self.hidden = self.cell(obs, self.hidden)
        return self.head(self.hidden)


class SmoothsInBuffer(Walker):
    """6: an action filter in a buffer, written in place."""

    last: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(1, ACTIONS))

    def forward(self, obs: Tensor) -> Tensor:
        self.last.mul_(0.8).add_(0.2 * self.net(obs).mean(0, keepdim=True))
        return self.last.expand(obs.shape[0], -1).clone()


class Dropout(nn.Module):
    """7: dropout between the layers, left in training mode after the last update."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(OBS, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, ACTIONS)
        )

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs)


class FunctionalDropout(Walker):
    """7: dropout as a function, which does not know about evaluation mode."""

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(functional.dropout(obs, 0.3))


class BatchNorm(nn.Module):
    """8: batch norm, left in training mode after the last update."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(OBS, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, ACTIONS)
        )
        for _ in range(20):
            self.net(2.0 * torch.randn(64, OBS) + 1.0)

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs)


class BatchStatistics(Walker):
    """8: a norm without running statistics takes them from whatever rows are there."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(OBS, track_running_stats=False)

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(self.norm(obs))


class OwnBatchStatistics(Walker):
    """8: the same by hand, which runs with one row too."""

    def forward(self, obs: Tensor) -> Tensor:
        return self.net((obs - obs.mean(0)) / (obs.std(0, unbiased=False) + 1e-5))


class RunningMean(nn.Module):
    """A normaliser that goes on learning, whatever the mode: `update` is called in forward."""

    mean: Tensor
    var: Tensor

    def __init__(self, trained: bool = True) -> None:
        super().__init__()
        self.register_buffer("mean", torch.linspace(-1, 1, OBS) if trained else torch.zeros(OBS))
        self.register_buffer("var", torch.linspace(0.5, 2, OBS) if trained else torch.ones(OBS))
        self.count = 1000.0 if trained else 0.0

    def update(self, obs: Tensor) -> None:
        self.count += obs.shape[0]
        self.mean += (obs.mean(0) - self.mean) * obs.shape[0] / self.count

    def forward(self, obs: Tensor) -> Tensor:
        return (obs - self.mean) / torch.sqrt(self.var + 1e-8)


class AlwaysLearning(RunningMean):
    """10: statistics that move at every step on the robot."""

    def forward(self, obs: Tensor) -> Tensor:
        self.update(obs)
        return super().forward(obs)


class Normalized(Walker):
    """An actor that has its normaliser inside."""

    def __init__(self, normalizer: nn.Module) -> None:
        super().__init__()
        self.normalizer = normalizer

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(self.normalizer(obs))


class Samples(Walker):
    """12: `act` of the training loop, which samples."""

    def __init__(self) -> None:
        super().__init__()
        self.std = nn.Parameter(0.3 * torch.ones(ACTIONS))

    def forward(self, obs: Tensor) -> Tensor:
        return torch.distributions.Normal(self.net(obs), self.std).sample()


class SamplesDiscrete(Walker):
    """12: a categorical policy that samples."""

    def forward(self, obs: Tensor) -> Tensor:
        return torch.distributions.Categorical(logits=self.net(obs)).sample()


class OneRobot(Walker):
    """19: written for the one robot on the table."""

    def forward(self, obs: Tensor) -> Tensor:
        command = torch.zeros(1, ACTIONS)
        command[0] = self.net(obs)[0]
        return command


class FlattensAll(Walker):
    """19: `view(1, -1)`, which is right for one row."""

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs.view(1, -1))


class TicksAsFloat(Walker):
    """23: the phase of a tick counter, computed in float32: right below 2²⁴ ticks."""

    def __init__(self, truncated: bool) -> None:
        super().__init__()
        self.truncated = truncated

    def forward(self, obs: Tensor, tick: Tensor) -> Tensor:
        place = torch.remainder(tick.float() if self.truncated else tick, 50)
        return self.net(obs) + 0.02 * place.float().unsqueeze(-1)
