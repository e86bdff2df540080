"""A small framework, as somebody else might have written it: it knows nothing of Roadworthy."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn


class Agent:
    """A policy: a network behind statistics of the observations, and limits of the actions."""

    def __init__(self, observations: int, actions: int) -> None:
        self.network = nn.Sequential(nn.Linear(observations, 32), nn.Tanh(), nn.Linear(32, actions))
        self.mean, self.std = torch.zeros(observations), torch.ones(observations)
        self.limit = 2.0

    def act(self, obs: Tensor) -> Tensor:
        with torch.no_grad():
            scaled = (obs - self.mean) / (self.std + 1e-6)
            action: Tensor = self.network(scaled).tanh() * self.limit
            return action

    def save(self, path: Path) -> None:
        state = {"toylab": 1, "mean": self.mean, "std": self.std, **self.network.state_dict()}
        torch.save(state, path)

    @classmethod
    def load(cls, path: Path) -> Agent:
        state = torch.load(path, weights_only=True)
        agent = cls(state["0.weight"].shape[1], state["2.weight"].shape[0])
        agent.mean, agent.std = state.pop("mean"), state.pop("std")
        del state["toylab"]
        agent.network.load_state_dict(state)
        return agent
