"""Policies as people write them, which a graph once could not hold: each must be certified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

OBS = {"obs": torch.linspace(-2, 2, 24).reshape(4, 6)}
WINDOW = {"obs": torch.linspace(-2, 2, 160).reshape(4, 5, 8)}


class Normalised(nn.Module):
    """The running statistics of rl_games: scripted, with an argument that may be left out."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.linspace(-1, 1, size))
        self.register_buffer("var", torch.linspace(0.5, 2, size))
        self.epsilon = 1e-5

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is not None:
            x = x * mask
        # TorchScript takes no annotations of buffers where they are texts.
        spread = torch.sqrt(self.var + self.epsilon)  # type: ignore[operator]
        return torch.clamp((x - self.mean) / spread, -5.0, 5.0)


class Stacked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6, bias=False)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = functional.elu(layer(x))
        return x


class Scripted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.jit.script(Normalised(6))
        self.trunk = torch.jit.script(Stacked())
        self.head = nn.Linear(6, 2)

    def forward(self, obs: Tensor) -> Tensor:
        return self.head(self.trunk(self.norm(obs, None)))


class CriticNeverLoaded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6, 2)
        self.critic = nn.Linear(6, 1, device="meta")

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs)


class ManySeen(nn.Module):
    """Statistics as sums over ten million samples."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", 1e7 * torch.linspace(-1, 1, 6))
        self.register_buffer("squares", 1e7 * torch.linspace(1, 2, 6))
        self.register_buffer("count", torch.tensor(1e7))
        self.net = nn.Linear(6, 2)

    def forward(self, obs: Tensor) -> Tensor:
        mean, spread = self.total / self.count, torch.sqrt(self.squares / self.count)
        return self.net((obs - mean) / spread)


class ViewedByLength(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6, 6)

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs).view(len(obs), 3, 2)


class NothingToSqueeze(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6, 2)

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs).squeeze(-1)


class SqueezedAside(nn.Module):
    """The model of rl_games: what it squeezes bare is not what is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6, 2)

    def results(self, obs: Tensor) -> dict[str, Tensor]:
        mean = self.net(obs)
        return {"mus": mean, "neglogp": torch.squeeze(mean.sum(-1, keepdim=True))}

    def forward(self, obs: Tensor) -> Tensor:
        return self.results(obs)["mus"]


class SampledAside(nn.Module):
    """The discrete model of rl_games: it draws, and what is asked for are the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6, 4)

    def forward(self, obs: Tensor) -> Tensor:
        choice = torch.distributions.Categorical(logits=self.net(obs))
        choice.log_prob(choice.sample())
        return choice.logits


class Causal(nn.Module):
    """A mask that says nothing of being causal: PyTorch looks at its values."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 1), nn.Linear(8, 2)

    def forward(self, obs: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(obs.shape[1])
        return self.head(self.encoder(obs, mask=mask)[:, -1])


class LastActions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(8, 2)

    def forward(self, obs: Tensor, actions: Tensor) -> Tensor:
        return self.net(torch.cat([obs, actions], dim=-1))


class Grouped(nn.Module):
    """Observations by group, as rsl_rl and skrl pass them."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6, 2)

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        return self.net(obs["policy"])


@dataclass
class Answer:
    action: Tensor
    value: Tensor


class AnswerTuple(NamedTuple):
    action: Tensor
    value: Tensor


class AnsweringDataclass(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6, 2)

    def forward(self, obs: Tensor) -> Answer:
        features = self.net(obs)
        return Answer(action=features.tanh(), value=features.sum(-1))


class AnsweringTuple(AnsweringDataclass):
    def forward(self, obs: Tensor) -> AnswerTuple:  # type: ignore[override]
        features = self.net(obs)
        return AnswerTuple(features.tanh(), features.sum(-1))


class Tasks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.net = nn.Embedding(5, 8), nn.Linear(8, 2)

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(self.table(obs))


class TwoClamps(nn.Module):
    def forward(self, obs: Tensor) -> Tensor:
        return torch.cat([obs.clamp(-1, 1), obs.clamp(0, 2), obs.clamp(min=0)], dim=-1)


class TakenAlong(nn.Module):
    def forward(self, obs: Tensor) -> Tensor:
        best = obs.argmax(dim=-1, keepdim=True)
        return torch.cat([torch.take_along_dim(obs, best, dim=-1), obs.take_along_dim(best, 1)], 1)


class HalfSums(nn.Module):
    def forward(self, obs: Tensor) -> Tensor:
        return obs.half().cumsum(-1).float()


class Orthogonal(nn.Module):
    """A Householder product in every call, of weights alone."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.utils.parametrizations.orthogonal(nn.Linear(6, 6))

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs)


class WhitenedByWeights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6, 3)
        self.inertia = nn.Parameter(torch.tensor([[2.0, 0.1, 0], [0.1, 3, 0], [0, 0, 4]]))

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs) @ torch.linalg.inv(self.inertia)


class Prototypes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.prototypes = nn.Parameter(torch.eye(4, 6))

    def forward(self, obs: Tensor) -> Tensor:
        return torch.cdist(obs, self.prototypes)


class OrderStatistics(nn.Module):
    """Medians, ranks and bins of an ensemble's votes."""

    edges: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("edges", torch.linspace(-1, 1, 11))

    def forward(self, obs: Tensor) -> Tensor:
        middle, second = obs.median(-1).values, obs.kthvalue(2, -1).values
        steps = torch.searchsorted(self.edges, obs).float()
        peaks = obs.cummax(-1).values - obs.cummin(-1).values
        signs = torch.copysign(obs, -1.0) + torch.fmax(obs, obs.flip(-1))
        order = torch.sort(obs, dim=-1, stable=True).values
        return torch.cat([middle[:, None], second[:, None], steps, peaks, signs, order], dim=-1)


# Module → example, and what else is said.
NATURAL: dict[type[nn.Module], dict[str, Any]] = {
    Scripted: {},
    CriticNeverLoaded: {},
    ManySeen: {},
    ViewedByLength: {},
    NothingToSqueeze: {},
    SqueezedAside: {},
    SampledAside: {},
    Causal: {"example": WINDOW},
    LastActions: {"example": {**OBS, "actions": torch.zeros(4, 2)}},
    Grouped: {"example": {"policy": OBS["obs"]}},
    AnsweringDataclass: {},
    AnsweringTuple: {},
    Tasks: {"example": {"obs": torch.tensor([0, 3, 4])}},
    TwoClamps: {},
    TakenAlong: {},
    HalfSums: {},
    Orthogonal: {},
    WhitenedByWeights: {},
    Prototypes: {},
    OrderStatistics: {},
}
