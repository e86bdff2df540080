"""Small modules that remember, in every way that users write them."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Lstm(nn.Module):
    """Memory as arguments and results: forward(obs, h, c) → actions, h, c."""

    def __init__(self, layers: int = 1) -> None:
        super().__init__()
        self.rnn = nn.LSTM(6, 16, layers)
        self.head = nn.Linear(16, 3)

    def forward(self, obs: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        features, (h, c) = self.rnn(obs.unsqueeze(0), (h, c))
        return self.head(features.squeeze(0)), h, c


class LstmTuple(nn.Module):
    """Memory as one argument, a pair: forward(obs, state) → actions, state."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(6, 16, 2)
        self.head = nn.Linear(16, 3)

    def forward(
        self, obs: Tensor, state: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        features, state = self.rnn(obs.unsqueeze(0), state)
        return self.head(features.squeeze(0)), state


class Gru(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(6, 16, batch_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, obs: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        features, h = self.rnn(obs.unsqueeze(1), h)
        return self.head(features.squeeze(1)), h


class OwnCell(nn.Module):
    """A cell of the user's own; results as a mapping."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(6 + 8, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, obs: Tensor, trace: Tensor, last: Tensor) -> dict[str, Tensor]:
        trace = 0.9 * trace + 0.1 * self.mix(torch.cat([obs, trace], dim=-1)).tanh()
        actions = self.head(trace) + 0.5 * last
        return {"actions": actions, "trace": trace, "last": actions}


class KeepsHidden(nn.Module):
    """Keeps its memory itself and starts it at the first call."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(6, 12)
        self.head = nn.Linear(12, 3)
        self.hidden: Tensor | None = None

    def forward(self, obs: Tensor) -> Tensor:
        if self.hidden is None:
            self.hidden = torch.zeros(obs.shape[0], 12)
        self.hidden = self.cell(obs, self.hidden)
        return self.head(self.hidden)


class KeepsPair(nn.Module):
    """Keeps an LSTM's pair in an attribute, as rsl_rl's Memory does."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(6, 12)
        self.head = nn.Linear(12, 3)
        self.hidden_states: tuple[Tensor, Tensor] | None = None

    def forward(self, obs: Tensor) -> Tensor:
        features, self.hidden_states = self.rnn(obs.unsqueeze(0), self.hidden_states)
        return self.head(features.squeeze(0))


class KeepsBuffer(nn.Module):
    """Keeps the last three observations in a buffer and writes it in place."""

    history: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(3 * 6, 3)
        self.register_buffer("history", torch.zeros(1, 3, 6))

    def forward(self, obs: Tensor) -> Tensor:
        self.history[:, :-1] = self.history[:, 1:].clone()
        self.history[:, -1] = obs
        return self.net(self.history.flatten(1))


class Phase(nn.Module):
    """A gait clock that starts at a quarter, and a filter that starts at its own pose."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6 + 1, 3)

    def forward(self, obs: Tensor, phase: Tensor, pose: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        phase = torch.remainder(phase + 0.03, 1.0)
        wave = torch.sin(2 * torch.pi * phase)
        pose = 0.8 * pose + 0.2 * self.net(torch.cat([obs, wave], dim=-1))
        return pose, phase, pose


class ActionFilter(nn.Module):
    """A network whose actions are smoothed before they leave."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 16), nn.ELU(), nn.Linear(16, 3))

    def forward(self, obs: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        actions = 0.7 * last + 0.3 * self.net(obs)
        return actions, actions


class GruTwoLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(6, 12, 2)
        self.head = nn.Linear(12, 3)

    def forward(self, obs: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        features, h = self.rnn(obs.unsqueeze(0), h)
        return self.head(features.squeeze(0)).tanh(), h


class NormalizedLstm(Lstm):
    """An LSTM behind a normaliser that is a part of it, as rsl_rl's actor has it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.linspace(-1.0, 2.0, 6))
        self.register_buffer("std", torch.linspace(0.3, 3.0, 6))

    def forward(self, obs: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return super().forward((obs - self.mean) / (self.std + 1e-2), h, c)


class WindowTransformer(nn.Module):
    """Attends to its own last embeddings, which it carries along."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.embedding = nn.Linear(6, width)
        self.places = nn.Parameter(0.1 * torch.randn(1, 4, width))
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.head = nn.Linear(width, 3)

    def forward(self, obs: Tensor, window: Tensor) -> tuple[Tensor, Tensor]:
        window = torch.cat([window[:, 1:], self.embedding(obs).unsqueeze(1)], dim=1)
        tokens = window + self.places
        mixed, _ = self.attention(tokens[:, -1:], tokens, tokens, need_weights=False)
        return self.head(mixed.squeeze(1)), window


class IntegerClock(nn.Module):
    """A gait that repeats every twenty steps, counted in whole numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6 + 2, 3)

    def forward(self, obs: Tensor, tick: Tensor) -> tuple[Tensor, Tensor]:
        angle = 2 * torch.pi * torch.remainder(tick, 20).float() / 20
        waves = torch.cat([angle.sin(), angle.cos()], dim=-1)
        return self.net(torch.cat([obs, waves], dim=-1)), tick + 1
