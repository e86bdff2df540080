"""Policies that hold statistics or scales which no output depends on, and some that apply them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from tests.capture.state.wrong import Base

MEAN, VAR = [0.1, -0.4, 1.7, 3.0], [0.9, 0.1, 2.5, 8.0]


class InADict(Base):
    def begin(self) -> None:
        self.stats = {"mean": np.array(MEAN), "var": np.array(VAR)}


class InLists(Base):
    def begin(self) -> None:
        self.obs_mean, self.obs_std = MEAN, VAR


class LocAndScale(Base):
    def begin(self) -> None:
        self.register_buffer("loc", torch.tensor(MEAN))
        self.register_buffer("scale", torch.tensor(VAR))


class Stacked(Base):
    def begin(self) -> None:
        self.register_buffer("obs_stats", torch.tensor([MEAN, VAR]))


class UnusedBatchNorm(Base):
    def begin(self) -> None:
        self.norm = nn.BatchNorm1d(4)


class ActionScale(Base):
    def begin(self) -> None:
        self.register_buffer("action_scale", torch.tensor(2.0))
        self.register_buffer("action_bias", torch.tensor(0.5))


class AppliesDict(InADict):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        mean, var = (torch.as_tensor(self.stats[key]).float() for key in ("mean", "var"))
        return y + (obs - mean) / var.sqrt()


class AppliesBatchNorm(UnusedBatchNorm):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y + self.norm(obs)


class AppliesScale(ActionScale):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return torch.tanh(y) * self.action_scale + self.action_bias


class Normalises(LocAndScale):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y + (obs - self.loc) / self.scale
