"""Attention over histories, entities, points and joints."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.user_policies.cases import Family, carrying, mlp

people = Family("attention")

OBS, ACT, WIDTH, LENGTH = 8, 3, 16, 6
WINDOW = {"obs": torch.zeros(1, LENGTH, OBS)}


class Encoder(nn.Module):
    """A transformer encoder over a window, positions learned, the last token decides."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.positions = (
            nn.Linear(OBS, WIDTH),
            nn.Parameter(torch.randn(1, LENGTH, WIDTH)),
        )
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 32, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, ACT)

    def forward(self, obs: Tensor) -> Tensor:
        tokens = self.encoder(self.embed(obs) + self.positions)
        action: Tensor = self.head(tokens[:, -1])
        return action


@people.case(WINDOW)
def encoder() -> nn.Module:
    return Encoder()


class CausalEncoder(Encoder):
    def forward(self, obs: Tensor) -> Tensor:
        mask = torch.triu(torch.full((LENGTH, LENGTH), float("-inf")), diagonal=1)
        tokens = self.encoder(self.embed(obs) + self.positions, mask=mask)
        actions: Tensor = self.head(tokens)
        return actions


@people.case(WINDOW)
def causal_encoder() -> nn.Module:
    return CausalEncoder()


class AnyLength(nn.Module):
    """Sines for positions; windows of any length."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(OBS, WIDTH), nn.Linear(WIDTH, ACT)
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def forward(self, obs: Tensor) -> Tensor:
        steps = torch.arange(obs.shape[1]).unsqueeze(1)
        rates = torch.exp(torch.arange(0, WIDTH, 2) * (-math.log(100.0) / WIDTH))
        positions = torch.cat([torch.sin(steps * rates), torch.cos(steps * rates)], dim=1)
        tokens = self.embed(obs) + positions
        mixed, _ = self.attention(tokens[:, -1:], tokens, tokens, need_weights=False)
        action: Tensor = self.head(mixed.squeeze(1))
        return action


@people.case(WINDOW, dynamic={"obs": {1: "length"}})
def any_length() -> nn.Module:
    return AnyLength()


class Gpt(nn.Module):
    """Own blocks with scaled_dot_product_attention(is_causal=True), as in nanoGPT."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.qkv = nn.Linear(OBS, WIDTH), nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.project, self.norm = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)
        self.feed, self.head = mlp(WIDTH, 32, WIDTH, activation=nn.GELU), nn.Linear(WIDTH, ACT)

    def forward(self, obs: Tensor) -> Tensor:
        x = self.embed(obs)
        rows, length, width = x.size()
        q, k, v = self.qkv(self.norm(x)).split(width, dim=2)
        q, k, v = (each.view(rows, length, 2, width // 2).transpose(1, 2) for each in (q, k, v))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(y.transpose(1, 2).contiguous().view(rows, length, width))
        action: Tensor = self.head((x + self.feed(x))[:, -1])
        return action


@people.case(WINDOW)
def gpt() -> nn.Module:
    return Gpt()


class DecisionTransformer(nn.Module):
    """Return-to-go, state and action interleaved; the state's token predicts the action."""

    def __init__(self) -> None:
        super().__init__()
        self.returns, self.states = nn.Linear(1, WIDTH), nn.Linear(OBS, WIDTH)
        self.actions, self.time = nn.Linear(ACT, WIDTH), nn.Embedding(100, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 32, activation="gelu", batch_first=True)
        self.blocks, self.head = nn.TransformerEncoder(layer, 1), nn.Linear(WIDTH, ACT)

    def forward(
        self, states: Tensor, actions: Tensor, returns: Tensor, timesteps: Tensor
    ) -> Tensor:
        rows, length = states.shape[0], states.shape[1]
        time = self.time(timesteps)
        parts = (self.returns(returns), self.states(states), self.actions(actions))
        stacked = torch.stack([part + time for part in parts], dim=1)
        tokens = stacked.permute(0, 2, 1, 3).reshape(rows, 3 * length, WIDTH)
        mask = nn.Transformer.generate_square_subsequent_mask(3 * length)
        out = self.blocks(tokens, mask=mask, is_causal=True)
        out = out.reshape(rows, length, 3, WIDTH).permute(0, 2, 1, 3)
        return torch.tanh(self.head(out[:, 1]))[:, -1]


@people.case(
    {
        "states": torch.zeros(1, 4, OBS), "actions": torch.zeros(1, 4, ACT),
        "returns": torch.zeros(1, 4, 1), "timesteps": torch.tensor([[0, 1, 2, 99]]),
    }
)  # fmt: skip
def decision_transformer() -> nn.Module:
    return DecisionTransformer()


class Entities(nn.Module):
    """Any of five obstacles may be absent: a key padding mask, and a token of one's own."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.other = nn.Linear(OBS, WIDTH), nn.Linear(4, WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.head = mlp(2 * WIDTH, 32, ACT)

    def forward(self, obs: Tensor, obstacles: Tensor, present: Tensor) -> Tensor:
        own = self.own(obs).unsqueeze(1)
        tokens = torch.cat([own, self.other(obstacles)], 1)
        absent = torch.cat([torch.zeros_like(present[:, :1]), ~present], 1)
        mixed, _ = self.attention(own, tokens, tokens, key_padding_mask=absent)
        action: Tensor = self.head(torch.cat([own, mixed], -1).squeeze(1))
        return action


@people.case(
    {
        "obs": torch.zeros(1, OBS),
        "obstacles": torch.zeros(1, 5, 4),
        "present": torch.ones(1, 5, dtype=torch.bool),
    }
)
def entities() -> nn.Module:
    return Entities()


class Perceiver(nn.Module):
    """Latent queries read the inputs; attention written out with einsum."""

    def __init__(self) -> None:
        super().__init__()
        self.latents = nn.Parameter(torch.randn(4, WIDTH))
        self.k, self.v = nn.Linear(OBS, WIDTH), nn.Linear(OBS, WIDTH)
        self.head = mlp(4 * WIDTH, 32, ACT)

    def forward(self, obs: Tensor) -> Tensor:
        k, v = self.k(obs), self.v(obs)
        scores = torch.einsum("qd,bkd->bqk", self.latents, k) / WIDTH**0.5
        read = torch.einsum("bqk,bkd->bqd", scores.softmax(-1), v)
        action: Tensor = self.head(read.flatten(1))
        return action


@people.case(WINDOW)
def perceiver() -> nn.Module:
    return Perceiver()


class PointNet(nn.Module):
    """Shared layers over points, the maximum of each feature, the pose appended."""

    def __init__(self) -> None:
        super().__init__()
        self.points = nn.Sequential(
            nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 32, 1)
        )
        self.head = mlp(32 + OBS, 32, ACT)

    def forward(self, cloud: Tensor, obs: Tensor) -> Tensor:
        centred = cloud - cloud.mean(dim=1, keepdim=True)
        features = self.points(centred.transpose(2, 1))
        action: Tensor = self.head(torch.cat([torch.max(features, 2)[0], obs], 1))
        return action


@people.case({"cloud": torch.zeros(1, 20, 3), "obs": torch.zeros(1, OBS)})
def point_net() -> nn.Module:
    return PointNet().eval()


class BodyGraph(nn.Module):
    """Message passing along the kinematic tree, by its adjacency."""

    adjacency: Tensor

    def __init__(self) -> None:
        super().__init__()
        tree = torch.eye(6)
        for child, parent in ((1, 0), (2, 1), (3, 0), (4, 3), (5, 0)):
            tree[child, parent] = tree[parent, child] = 1.0
        self.register_buffer("adjacency", tree / tree.sum(1, keepdim=True))
        self.embed, self.head = nn.Linear(4, WIDTH), nn.Linear(WIDTH, 1)
        self.rounds = nn.ModuleList(nn.Linear(2 * WIDTH, WIDTH) for _ in range(3))

    def forward(self, nodes: Tensor) -> Tensor:
        h = functional.elu(self.embed(nodes))
        for message in self.rounds:
            h = h + functional.elu(message(torch.cat([h, self.adjacency @ h], -1)))
        action: Tensor = self.head(h).squeeze(-1)
        return action


@people.case({"nodes": torch.zeros(1, 6, 4)})
def body_graph() -> nn.Module:
    return BodyGraph()


class EdgeGraph(nn.Module):
    """Edges as an index list: gather at their ends, add up where they lead."""

    edges: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("edges", torch.tensor([[0, 1, 2, 3, 0, 5], [1, 2, 0, 0, 4, 3]]))
        self.message, self.update = mlp(8, WIDTH, WIDTH), nn.Linear(4 + WIDTH, 1)

    def forward(self, nodes: Tensor) -> Tensor:
        source, target = self.edges
        messages = self.message(torch.cat([nodes[:, source], nodes[:, target]], -1))
        summed = torch.zeros(nodes.shape[0], 6, WIDTH).index_add(1, target, messages)
        action: Tensor = self.update(torch.cat([nodes, summed], -1))
        return action[..., 0]


@people.case({"nodes": torch.zeros(1, 6, 4)})
def edge_graph() -> nn.Module:
    return EdgeGraph()


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w, self.u = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.g = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        wr, wz, wg = self.w(y).chunk(3, -1)
        ur, uz = self.u(x).chunk(2, -1)
        r, z = torch.sigmoid(wr + ur), torch.sigmoid(wz + uz - 2.0)
        return (1 - z) * x + z * torch.tanh(wg + self.g(r * x))


class GatedTransformer(nn.Module):
    """GTrXL: attention over a memory of past hidden states that is handed in and out."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm = nn.Linear(OBS, WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.gate, self.head = Gate(), nn.Linear(WIDTH, ACT)

    def forward(self, obs: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        x = self.embed(obs).unsqueeze(1)
        keys = self.norm(torch.cat([past, x], dim=1))
        mixed, _ = self.attention(self.norm(x), keys, keys)
        x = self.gate(x, torch.relu(mixed))
        return self.head(x.squeeze(1)), torch.cat([past[:, 1:], x], dim=1)


def gated_step(module: nn.Module, given: Any, past: Tensor) -> Any:
    return module(given["obs"], past)


@people.case(
    {"obs": torch.zeros(1, OBS)},
    memory={"past": torch.zeros(1, 4, WIDTH)},
    live=carrying(gated_step, lambda: torch.zeros(1, 4, WIDTH)),
)
def gated_transformer() -> nn.Module:
    return GatedTransformer()


class Slots(nn.Module):
    """Slot attention: three rounds of competition, a GRU cell updates the slots."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.randn(1, 3, WIDTH))
        self.q, self.k = nn.Linear(WIDTH, WIDTH), nn.Linear(OBS, WIDTH)
        self.v, self.cell = nn.Linear(OBS, WIDTH), nn.GRUCell(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, ACT)

    def forward(self, obs: Tensor) -> Tensor:
        k, v = self.k(obs), self.v(obs)
        slots = self.start.expand(obs.shape[0], -1, -1)
        for _ in range(3):
            weights = torch.softmax(k @ self.q(slots).transpose(1, 2) / 4.0, dim=-1) + 1e-8
            weights = weights / weights.sum(dim=1, keepdim=True)
            updates = weights.transpose(1, 2) @ v
            slots = self.cell(updates.reshape(-1, WIDTH), slots.reshape(-1, WIDTH)).view(
                -1, 3, WIDTH
            )
        action: Tensor = self.head(slots.mean(1))
        return action


@people.case(WINDOW)
def slots() -> nn.Module:
    return Slots()
