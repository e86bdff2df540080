"""What the small environments share: two joints, an age, and an episode that ends."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from roadworthy.environment import ExportableActor, ExportableEnvironment

EPISODE_STEPS = 12


def wave(age: int, *shape: int) -> Tensor:
    """Raw state at a certain age: smooth, different in every element."""
    count = int(torch.tensor(shape).prod())
    return torch.sin(0.05 * age + torch.arange(count, dtype=torch.float32)).reshape(shape)


class Robot(ExportableEnvironment):
    """Subclasses say how they keep their state: `begin`, `world`, and the three captured methods.

    `age` is a Python number that moves and that no output depends on.
    """

    joints = 2
    envs = 1

    def __init__(self) -> None:
        super().__init__()
        self.age = 0
        self.build()
        self.begin()

    def build(self) -> None:
        """Make the tensors."""

    def begin(self) -> None:
        """Put state and memory where an episode starts."""

    def world(self) -> None:
        """Move raw state by one simulation tick."""

    def step(self, actions: Tensor) -> tuple[Tensor, bool]:
        self.process_actions(actions)
        for _ in range(self.decimation):
            self.apply_actions()
            self.age += 1
            self.world()
        done = self.age >= EPISODE_STEPS * self.decimation
        if done:
            self.age = 0
            self.begin()
        return self.compute_observations(), done

    def observations_reset(self) -> Tensor:
        self.age = 0
        self.begin()
        return self.compute_observations()

    def empty_actions(self) -> Tensor:
        return torch.zeros(self.envs, self.joints)


class Feedforward(ExportableActor):
    def __init__(self, observations: int, actions: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(observations, 8), nn.ELU(), nn.Linear(8, actions), nn.Tanh()
        )

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs)


class Recurrent(ExportableActor):
    """An LSTM or GRU that keeps its state in an attribute."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU], observations: int, actions: int) -> None:
        super().__init__()
        self.rnn = kind(observations, 6)
        self.head = nn.Linear(6, actions)
        self.state: Tensor | tuple[Tensor, Tensor] | None = None

    def forward(self, obs: Tensor) -> Tensor:
        features, self.state = self.rnn(obs.unsqueeze(0), self.state)
        return torch.tanh(self.head(features.squeeze(0)))

    def reset(self, dones: Tensor) -> None:
        for state in self.get_state() or ():
            state[:, dones] = 0.0

    def get_state(self) -> tuple[Tensor, ...] | None:
        return (self.state,) if isinstance(self.state, Tensor) else self.state


def feedforward(env: ExportableEnvironment) -> Feedforward:
    torch.manual_seed(3)
    width = env.compute_observations().shape[-1]
    return Feedforward(width, env.empty_actions().shape[-1]).eval()


def recurrent(env: ExportableEnvironment, kind: type[nn.LSTM] | type[nn.GRU]) -> Recurrent:
    torch.manual_seed(4)
    width = env.compute_observations().shape[-1]
    actor = Recurrent(kind, width, env.empty_actions().shape[-1]).eval()
    with torch.no_grad():
        actor(env.empty_actor_observations() + 1.0)
    return actor
