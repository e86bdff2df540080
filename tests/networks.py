"""Small modules without memory, written as users write them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn


class Mlp(nn.Module):
    def __init__(self, inputs: int = 6, outputs: int = 3) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(inputs, 16), nn.ELU(), nn.Linear(16, outputs))

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs)


class RunningNorm(nn.Module):
    """A normaliser that learns while it trains, as rsl_rl's does."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.linspace(-1.0, 2.0, size))
        self.register_buffer("std", torch.linspace(0.3, 3.0, size))
        self.register_buffer("count", torch.tensor(1000.0))

    def forward(self, obs: Tensor) -> Tensor:
        if self.training:
            self.count += obs.shape[0]
            self.mean += (obs.mean(dim=0) - self.mean) / self.count
        return (obs - self.mean) / (self.std + 1e-2)


class GaussianActor(nn.Module):
    """A squashed Gaussian before the squash: mean and log standard deviation."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 16), nn.ReLU())
        self.mean = nn.Linear(16, 2)
        self.log_std = nn.Linear(16, 2)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        features = self.trunk(obs)
        return self.mean(features), self.log_std(features).clamp(-20, 2)


class Nature(nn.Module):
    """The convolutions of Nature DQN, small, on frames as a camera gives them."""

    def __init__(self, actions: int = 4) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(4, 8, 8, stride=4), nn.ReLU(), nn.Conv2d(8, 8, 4, stride=2), nn.ReLU()
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(8 * 3 * 3, 16), nn.ReLU())
        self.logits = nn.Linear(16, actions)
        # As CleanRL begins: with the default of PyTorch every frame gives the same action.
        for part in self.modules():
            if isinstance(part, (nn.Conv2d, nn.Linear)):
                nn.init.orthogonal_(part.weight, 2**0.5)
                nn.init.normal_(part.bias, std=0.05)

    def forward(self, pixels: Tensor) -> Tensor:
        frames = pixels.permute(0, 3, 1, 2).float() / 255.0
        return self.logits(self.head(self.convolutions(frames)))


class Bert(nn.Module):
    """An actor that attends to reference tokens; True in the mask hides a padded token."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.obs_embedding = nn.Linear(6, width)
        self.ref_embedding = nn.Linear(5, width)
        self.cls = nn.Parameter(torch.randn(1, 1, width))
        layer = nn.TransformerEncoderLayer(width, 2, 32, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 3)

    def forward(self, obs: Tensor, ref_obs: Tensor, ref_mask: Tensor) -> Tensor:
        rows = obs.shape[0]
        own = self.obs_embedding(obs).unsqueeze(1)
        tokens = torch.cat([self.cls.expand(rows, -1, -1), own, self.ref_embedding(ref_obs)], dim=1)
        visible = torch.zeros(rows, 2, dtype=torch.bool)
        encoded = self.encoder(tokens, src_key_padding_mask=torch.cat([visible, ref_mask], dim=1))
        return self.head(encoded[:, 0])


class DictActor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6 + 4, 3)

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        return self.net(torch.cat([obs["joints"], obs["base"]], dim=-1)).tanh()


class NestedDictActor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6 + 4 + 2, 3)

    def forward(self, obs: dict[str, dict[str, Tensor]], goal: Tensor) -> Tensor:
        robot = obs["robot"]
        return self.net(torch.cat([robot["joints"], robot["base"], goal], dim=-1)).tanh()


class TableActor(nn.Module):
    """A policy over a Discrete observation."""

    def __init__(self, states: int = 12) -> None:
        super().__init__()
        self.embedding = nn.Embedding(states, 8)
        self.head = nn.Linear(8, 4)

    def forward(self, obs: Tensor) -> Tensor:
        return self.head(self.embedding(obs).tanh())


class ContactActor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6 + 4, 3)

    def forward(self, obs: Tensor, contacts: Tensor) -> Tensor:
        return self.net(torch.cat([obs, contacts.float()], dim=-1))


class DictOutputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6, 5)

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        out = self.net(obs)
        return {"targets": out[:, :3], "gains": out[:, 3:].sigmoid(), "seen": obs}


class Heads(NamedTuple):
    actions: Tensor
    values: Tensor


class NamedTupleOutputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.actor = nn.Linear(6, 3)
        self.critic = nn.Linear(6, 1)

    def forward(self, obs: Tensor) -> Heads:
        return Heads(self.actor(obs).tanh(), self.critic(obs).squeeze(-1))


class NormDropout(nn.Module):
    """Behaves differently while it trains."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3)
        )
        norm = self.net[1]
        assert isinstance(norm, nn.BatchNorm1d)
        norm.running_mean = torch.randn(16)
        norm.running_var = torch.rand(16) + 0.5

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs)


class OddNames(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(9, 3)

    def forward(self, obs: dict[str, Tensor]) -> dict[str, Tensor]:
        named = torch.cat([obs["joint pos"], obs["base-vel.x"], obs["linear"]], dim=-1)
        return {"joint targets [rad]": self.net(named), "net.weight": named.sum(-1)}


class ImageAndVector(nn.Module):
    """A camera and joint angles in one Dict observation."""

    def __init__(self) -> None:
        super().__init__()
        self.eyes = nn.Sequential(nn.Conv2d(3, 4, 4, stride=4), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(4 * 3 * 3 + 5, 3)

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        seen = self.eyes(obs["image"].permute(0, 3, 1, 2).float() / 255.0)
        return self.head(torch.cat([seen, obs["vector"]], dim=-1))


class Residual(nn.Module):
    """Blocks with layer norm, each added to what went in."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.embedding = nn.Linear(6, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU()) for _ in range(3)
        )
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 3))

    def forward(self, obs: Tensor) -> Tensor:
        features = self.embedding(obs)
        for block in self.blocks:
            features = features + block(features)
        return self.head(features)


class Experts(nn.Module):
    """Several actors, mixed by a gate."""

    def __init__(self, count: int = 4) -> None:
        super().__init__()
        self.gate = nn.Linear(6, count)
        self.weights = nn.Parameter(torch.randn(count, 6, 3) / 6**0.5)

    def forward(self, obs: Tensor) -> Tensor:
        shares = self.gate(obs).softmax(dim=-1)
        answers = torch.einsum("bi,eio->beo", obs, self.weights).tanh()
        return (shares.unsqueeze(-1) * answers).sum(dim=1)


class Dueling(nn.Module):
    """The value of a state and the advantage of each action."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 16), nn.ReLU())
        self.value, self.advantage = nn.Linear(16, 1), nn.Linear(16, 4)

    def forward(self, obs: Tensor) -> Tensor:
        features = self.trunk(obs)
        advantage = self.advantage(features)
        return self.value(features) + advantage - advantage.mean(dim=-1, keepdim=True)


class BetaMean(nn.Module):
    """The mean of a Beta policy, in [0, 1]."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6, 6)

    def forward(self, obs: Tensor) -> Tensor:
        alpha, beta = (nn.functional.softplus(self.net(obs)) + 1.0).chunk(2, dim=-1)
        return alpha / (alpha + beta)


class Tasks(nn.Module):
    """One actor for several tasks, told by a number which it is."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.net = nn.Sequential(nn.Linear(6 + 4, 16), nn.GELU(), nn.Linear(16, 3))

    def forward(self, obs: Tensor, task: Tensor) -> Tensor:
        return self.net(torch.cat([obs, self.embedding(task)], dim=-1))
