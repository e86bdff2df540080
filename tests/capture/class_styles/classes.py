"""Policies in the shapes that other people's classes have: what acts, and where state is kept."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

OBS, ACT = 6, 3


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 16), nn.ELU(), nn.Linear(16, outputs))


class RslActorCritic(nn.Module):
    """As rsl_rl's ActorCritic: `forward` raises, `act_inference` acts, `act` samples."""

    def __init__(self) -> None:
        super().__init__()
        self.actor, self.critic = mlp(OBS, ACT), mlp(OBS, 1)
        self.std = nn.Parameter(torch.ones(ACT))
        self.distribution: torch.distributions.Normal | None = None

    def forward(self) -> Tensor:
        raise NotImplementedError

    def act(self, observations: Tensor, **kwargs: Any) -> Tensor:
        mean = self.actor(observations)
        self.distribution = torch.distributions.Normal(mean, mean * 0.0 + self.std)
        drawn: Tensor = self.distribution.sample()  # type: ignore[no-untyped-call]
        return drawn

    def act_inference(self, observations: Tensor) -> Tensor:
        out: Tensor = self.actor(observations)
        return out

    def evaluate(self, critic_observations: Tensor) -> Tensor:
        out: Tensor = self.critic(critic_observations)
        return out


class SkrlModel(nn.Module):
    """As skrl's Model: `act(inputs, role)` gives a tuple with a dict at its end."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBS, ACT)

    def act(self, inputs: dict[str, Tensor], role: str = "") -> tuple[Tensor, None, dict[str, Any]]:
        assert role == "policy"
        return self.net(inputs["states"]), None, {}


class RlGamesModel(nn.Module):
    """As rl_games' ModelA2CContinuousLogStd: one dict in, one dict out, flags inside of it."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBS, ACT)

    def forward(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        mu = self.net(input_dict["obs"])
        if input_dict["is_train"]:
            raise AssertionError("only in training")
        return {"mus": mu, "rnn_states": input_dict["rnn_states"]}


class Flagged(nn.Module):
    """As SB3's policies: `_predict(observation, deterministic)`."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.std = mlp(OBS, ACT), nn.Parameter(torch.ones(ACT))

    def forward(self, observation: Tensor, deterministic: bool = False, mask: Any = None) -> Tensor:
        mean: Tensor = self.net(observation)
        if mask is not None:
            mean = mean * mask
        return mean if deterministic else mean + self.std * torch.randn_like(mean)
