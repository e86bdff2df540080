"""Agents in the shape of CleanRL's single-file scripts, asked as their evaluation asks them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Normal
from torch.nn import functional

import roadworthy as rw
from tests.user_policies.cases import Family, carrying, mlp, obs

people = Family("CleanRL")

SCREENS = torch.tensor([0, 255], dtype=torch.uint8)[:, None, None, None].expand(2, 4, 36, 36)


def layer(module: Any, gain: float = 2**0.5) -> Any:
    nn.init.orthogonal_(module.weight, gain)
    nn.init.constant_(module.bias, 0.1)
    return module


class DiscreteAgent(nn.Module):
    """No `forward` at all: `get_action_and_value` acts, and draws."""

    def __init__(self) -> None:
        super().__init__()
        self.critic = mlp(4, 32, 1, activation=nn.Tanh)
        self.actor = nn.Sequential(layer(nn.Linear(4, 32)), nn.Tanh(), layer(nn.Linear(32, 3)))

    def get_value(self, x: Tensor) -> Tensor:
        value: Tensor = self.critic(x)
        return value

    def get_action_and_value(self, x: Tensor, action: Tensor | None = None) -> Any:
        probs = Categorical(logits=self.actor(x))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


@people.case(obs(4), method=lambda agent, obs: agent.actor(obs).argmax(-1))
def ppo() -> nn.Module:
    return DiscreteAgent()


# Most take the actor out, and say what its output means.
@people.case(obs(4))
def ppo_actor() -> nn.Module:
    return DiscreteAgent().actor


# As it stands the agent draws: refused, since nobody said what is wanted instead.
@people.case(
    {"x": torch.zeros(1, 4)},
    method="get_action_and_value",
    then={"outputs": ("actions", None, None, None)},
    refused="RW111",
)
def ppo_drawing() -> nn.Module:
    return DiscreteAgent()


class ContinuousAgent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.critic = mlp(6, 32, 1, activation=nn.Tanh)
        self.actor_mean = mlp(6, 32, 32, 2, activation=nn.Tanh)
        self.actor_logstd = nn.Parameter(torch.zeros(1, 2))

    def get_action_and_value(self, x: Tensor, action: Tensor | None = None) -> Any:
        mean = self.actor_mean(x)
        probs = Normal(mean, self.actor_logstd.expand_as(mean).exp())
        action = probs.sample() if action is None else action
        return action, probs.log_prob(action).sum(1), probs.entropy().sum(1), self.critic(x)


@people.case(obs(6), method=lambda agent, obs: agent.actor_mean(obs))
def ppo_continuous() -> nn.Module:
    return ContinuousAgent()


class AtariAgent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(
            layer(nn.Conv2d(4, 8, 8, stride=4)), nn.ReLU(),
            layer(nn.Conv2d(8, 16, 4, stride=2)), nn.ReLU(),
            layer(nn.Conv2d(16, 16, 3)), nn.Flatten(), layer(nn.Linear(16, 32)), nn.ReLU(),
        )  # fmt: skip
        self.actor = layer(nn.Linear(32, 4), 0.01)
        self.critic = layer(nn.Linear(32, 1), 1)

    def get_value(self, x: Tensor) -> Tensor:
        value: Tensor = self.critic(self.network(x / 255.0))
        return value

    def act(self, x: Tensor) -> Tensor:
        logits: Tensor = self.actor(self.network(x / 255.0))
        return logits.argmax(dim=1)


@people.case({"x": SCREENS}, method="act")
def ppo_atari() -> nn.Module:
    return AtariAgent()


class LstmAgent(nn.Module):
    """The state is cut by `done` inside of the agent."""

    def __init__(self) -> None:
        super().__init__()
        self.network, self.lstm = nn.Linear(6, 16), nn.LSTM(16, 12)
        self.actor = nn.Linear(12, 3)

    def get_states(self, x: Tensor, lstm_state: Any, done: Tensor) -> Any:
        hidden = self.network(x).relu()
        batch_size = lstm_state[0].shape[1]
        hidden = hidden.reshape((-1, batch_size, self.lstm.input_size))
        done = done.reshape((-1, batch_size))
        new_hidden = []
        for h, d in zip(hidden, done, strict=True):
            keep = (1.0 - d).view(1, -1, 1)
            state = (keep * lstm_state[0], keep * lstm_state[1])
            h, lstm_state = self.lstm(h.unsqueeze(0), state)
            new_hidden += [h]
        return torch.flatten(torch.cat(new_hidden), 0, 1), lstm_state

    def act(self, x: Tensor, lstm_state: Any, done: Tensor) -> Any:
        hidden, lstm_state = self.get_states(x, lstm_state, done)
        return self.actor(hidden), lstm_state


PAIR = (torch.zeros(1, 1, 12), torch.zeros(1, 1, 12))


STATE = {"memory": {"lstm_state": PAIR}}


def lstm_step(agent: nn.Module, given: Any, state: Any) -> Any:
    return agent.act(given["x"], state, given.get("done", torch.zeros(1)))  # type: ignore[operator]


# `done` is a number to PyTorch; that it is 0 or 1 has to be said.
@people.case(
    {"x": torch.zeros(1, 6), "done": torch.zeros(1)},
    method="act",
    **STATE,
    about={"done": rw.About(low=0.0, high=1.0)},
    live=carrying(lstm_step, lambda: PAIR),
)
def ppo_lstm() -> nn.Module:
    return LstmAgent()


# A runtime resets by itself: `done` is left out.
@people.case(
    {"x": torch.zeros(1, 6)},
    method=lambda agent, x, lstm_state: agent.act(x, lstm_state, torch.zeros(x.shape[0])),
    **STATE,
    live=carrying(lstm_step, lambda: PAIR),
)
def ppo_lstm_without_done() -> nn.Module:
    return LstmAgent()


class QNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(4, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 3)
        )

    def forward(self, x: Tensor) -> Tensor:
        values: Tensor = self.network(x)
        return values


@people.case({"x": torch.zeros(1, 4)})
def dqn() -> nn.Module:
    return QNetwork()


@people.case({"x": torch.zeros(1, 4)}, method=lambda q, x: torch.argmax(q(x), dim=1))
def dqn_greedy() -> nn.Module:
    return QNetwork()


class C51(nn.Module):
    atoms: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("atoms", torch.linspace(-100, 100, steps=21))
        self.n, self.network = 3, mlp(4, 32, 3 * 21, activation=nn.ReLU)

    def get_action(self, x: Tensor, action: Tensor | None = None) -> Any:
        pmfs = torch.softmax(self.network(x).view(len(x), self.n, len(self.atoms)), dim=2)
        if action is None:
            action = torch.argmax((pmfs * self.atoms).sum(2), 1)
        return action, pmfs[torch.arange(len(x)), action]


@people.case({"x": torch.zeros(1, 4)}, method="get_action", outputs=("action", "pmf"))
def c51() -> nn.Module:
    return C51()


class SacActor(nn.Module):
    action_scale: Tensor
    action_bias: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 32), nn.Linear(32, 32)
        self.fc_mean, self.fc_logstd = nn.Linear(32, 2), nn.Linear(32, 2)
        self.register_buffer("action_scale", torch.tensor([1.5, 0.5]))
        self.register_buffer("action_bias", torch.tensor([0.0, 0.25]))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = functional.relu(self.fc2(functional.relu(self.fc1(x))))
        log_std = torch.tanh(self.fc_logstd(x))
        return self.fc_mean(x), -5 + 0.5 * (2 + 5) * (log_std + 1)

    def get_action(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_std = self(x)
        normal = Normal(mean, log_std.exp())
        squashed = torch.tanh(normal.rsample())
        action = squashed * self.action_scale + self.action_bias
        log_prob = normal.log_prob(squashed).sum(1, keepdim=True)
        return action, log_prob, torch.tanh(mean) * self.action_scale + self.action_bias


@people.case({"x": torch.zeros(1, 6)}, method=lambda actor, x: actor.get_action(x)[2])
def sac() -> nn.Module:
    return SacActor()


class Td3Actor(SacActor):
    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        x = functional.relu(self.fc2(functional.relu(self.fc1(x))))
        return torch.tanh(self.fc_mean(x)) * self.action_scale + self.action_bias


@people.case({"x": torch.zeros(1, 6)})
def td3() -> nn.Module:
    return Td3Actor()


class ResidualBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv0 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv1(functional.relu(self.conv0(functional.relu(x))))


class Impala(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.res = nn.Conv2d(4, 8, 3, padding=1), ResidualBlock(8)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.fc, self.actor = nn.Linear(8 * 18 * 18, 32), nn.Linear(32, 4)

    def forward(self, obs: Tensor) -> Tensor:
        x = self.res(self.pool(self.conv(obs / 255.0)))
        logits: Tensor = self.actor(functional.relu(self.fc(torch.flatten(functional.relu(x), 1))))
        return logits


@people.case({"obs": SCREENS})
def ppg_impala() -> nn.Module:
    return Impala()
