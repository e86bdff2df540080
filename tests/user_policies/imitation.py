"""Imitation: diffusion, flow matching, ACT, mixtures, codebooks."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.user_policies.cases import HINT, Family, mlp, obs

people = Family("imitation")

OBS, ACT, HORIZON = 10, 2, 8


class SinusoidalEmbedding(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, t: Tensor) -> Tensor:
        half = self.size // 2
        rates = torch.exp(torch.arange(half) * -(math.log(10000) / (half - 1)))
        angles = t[:, None] * rates[None, :]
        return torch.cat((angles.sin(), angles.cos()), dim=-1)


class DiffusionMlp(nn.Module):
    """DDPM over one action, the first noise an input, the later ones left out (eta 0)."""

    alphas: Tensor

    def __init__(self, steps: int = 5) -> None:
        super().__init__()
        self.time = nn.Sequential(SinusoidalEmbedding(16), nn.Linear(16, 16), nn.Mish())
        self.net = mlp(OBS + ACT + 16, 64, ACT, activation=nn.Mish)
        self.register_buffer("alphas", torch.cumprod(1 - torch.linspace(1e-2, 0.3, steps), 0))
        self.steps = steps

    def forward(self, obs: Tensor, noise: Tensor) -> Tensor:
        x = noise
        for i in reversed(range(self.steps)):
            t = torch.full((obs.shape[0],), i, dtype=torch.long)
            eps = self.net(torch.cat([obs, x, self.time(t.float())], -1))
            alpha = self.alphas[t][:, None]
            before = self.alphas[i - 1] if i > 0 else torch.tensor(1.0)
            start = ((x - (1 - alpha).sqrt() * eps) / alpha.sqrt()).clamp(-1, 1)
            x = before.sqrt() * start + (1 - before).sqrt() * eps
        return x


@people.case({"obs": torch.zeros(1, OBS), "noise": torch.zeros(1, ACT)})
def diffusion_mlp() -> nn.Module:
    return DiffusionMlp()


class ConvBlock(nn.Module):
    """Convolution, group norm, and the condition as scale and bias."""

    def __init__(self, inputs: int, outputs: int, condition: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, 3, padding=1)
        self.norm, self.film = nn.GroupNorm(4, outputs), nn.Linear(condition, 2 * outputs)
        self.skip = nn.Conv1d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        scale, bias = self.film(functional.mish(condition)).unsqueeze(-1).chunk(2, dim=1)
        return functional.mish(self.norm(self.conv(x))) * scale + bias + self.skip(x)


class UNet(nn.Module):
    """The temporal U-Net of diffusion policy, small, two DDIM steps."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(SinusoidalEmbedding(16), nn.Linear(16, 16))
        condition = 16 + 2 * OBS
        self.down = nn.ModuleList([ConvBlock(ACT, 8, condition), ConvBlock(8, 16, condition)])
        self.shrink = nn.Conv1d(8, 8, 3, 2, 1)
        self.middle = ConvBlock(16, 16, condition)
        self.grow = nn.ConvTranspose1d(16, 8, 4, 2, 1)
        self.up, self.final = ConvBlock(16, 8, condition), nn.Conv1d(8, ACT, 1)

    def predicted(self, x: Tensor, t: Tensor, obs: Tensor) -> Tensor:
        condition = torch.cat([self.time(t), obs.flatten(1)], -1)
        first = self.down[0](x.moveaxis(-1, -2), condition)
        deep = self.middle(self.down[1](self.shrink(first), condition), condition)
        out = self.up(torch.cat([first, self.grow(deep)], dim=1), condition)
        return self.final(out).moveaxis(-1, -2)

    def forward(self, obs: Tensor, noise: Tensor) -> Tensor:
        x = noise
        for now, later in ((0.4, 0.8), (0.8, 1.0)):
            t = torch.full((obs.shape[0],), 100 * (1 - now))
            eps = self.predicted(x, t, obs)
            start = torch.clamp((x - math.sqrt(1 - now) * eps) / math.sqrt(now), -1, 1)
            x = math.sqrt(later) * start + math.sqrt(1 - later) * eps
        return x[:, 1:5]


@people.case({"obs": torch.zeros(1, 2, OBS), "noise": torch.zeros(1, HORIZON, ACT)})
def diffusion_unet() -> nn.Module:
    return UNet()


# The noise is drawn inside: the user is told that it has to be an input.
class Drawing(DiffusionMlp):
    def forward(self, obs: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(obs, torch.randn(obs.shape[0], ACT))


@people.case(obs(OBS), refused="RW111")
def diffusion_drawing() -> nn.Module:
    return Drawing()


class Flow(nn.Module):
    """Flow matching: Euler steps along a learned field."""

    def __init__(self) -> None:
        super().__init__()
        self.field = mlp(OBS + HORIZON * ACT + 1, 64, HORIZON * ACT, activation=nn.SiLU)

    def forward(self, obs: Tensor, noise: Tensor) -> Tensor:
        x, steps = noise.flatten(1), 4
        for k in range(steps):
            t = obs.new_full((obs.shape[0], 1), k / steps)
            x = x + self.field(torch.cat([obs, x, t], dim=-1)) / steps
        return x.reshape(-1, HORIZON, ACT)


@people.case({"obs": torch.zeros(1, OBS), "noise": torch.zeros(1, HORIZON, ACT)})
def flow_matching() -> nn.Module:
    return Flow()


class Act(nn.Module):
    """ACT: a transformer decodes a chunk of actions; the style variable is zero."""

    def __init__(self) -> None:
        super().__init__()
        self.state, self.latent = nn.Linear(OBS, 16), nn.Linear(4, 16)
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 5, 4), nn.ReLU(), nn.Conv2d(8, 16, 3, 2))
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)
        decoder = nn.TransformerDecoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.decoder = nn.TransformerDecoder(decoder, 1)
        self.queries, self.head = nn.Embedding(HORIZON, 16), nn.Linear(16, ACT)

    def forward(self, qpos: Tensor, image: Tensor) -> Tensor:
        rows = qpos.shape[0]
        pixels = self.backbone(image).flatten(2).permute(0, 2, 1)
        style = self.latent(torch.zeros([rows, 4], dtype=torch.float32))
        tokens = torch.cat([style[:, None], self.state(qpos)[:, None], pixels], dim=1)
        memory = self.encoder(tokens)
        queries = self.queries.weight.unsqueeze(0).repeat(rows, 1, 1)
        chunk: Tensor = self.head(self.decoder(queries, memory))
        return chunk


ACT_EXAMPLE = {"qpos": torch.zeros(1, OBS), "image": torch.zeros(1, 3, 24, 24)}


@people.case(ACT_EXAMPLE)
def act_chunk() -> nn.Module:
    return Act().eval()


class Ensembled(nn.Module):
    """Temporal ensembling: the chunks of past steps vote on the action of now."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBS, 32, HORIZON * ACT)
        self.chunks = torch.zeros(1, HORIZON, HORIZON, ACT)
        self.valid = torch.zeros(1, HORIZON)

    def forward(self, obs: Tensor) -> Tensor:
        chunk = self.net(obs).reshape(-1, 1, HORIZON, ACT)
        older = torch.cat([self.chunks[:, :-1, 1:], torch.zeros_like(self.chunks[:, :-1, :1])], 2)
        self.chunks = torch.cat([chunk, older], 1)
        self.valid = torch.cat([torch.ones_like(self.valid[:, :1]), self.valid[:, :-1]], 1)
        weights = self.valid * torch.exp(-0.1 * torch.arange(HORIZON))
        weights = weights / weights.sum(1, keepdim=True)
        return (weights[:, :, None] * self.chunks[:, :, 0]).sum(1)


@people.case(obs(OBS), then=HINT)
def temporal_ensembling() -> nn.Module:
    return Ensembled()


class BcRnnGmm(nn.Module):
    """robomimic's BC-RNN-GMM at test time: the mean of the likeliest mode."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(OBS, 16, num_layers=2, batch_first=True)
        self.means, self.logits = nn.Linear(16, 5 * ACT), nn.Linear(16, 5)
        self.rnn_state: Any = None

    def forward(self, obs: Tensor) -> Tensor:
        features, self.rnn_state = self.rnn(obs.unsqueeze(1), self.rnn_state)
        features = features.squeeze(1)
        means = torch.tanh(self.means(features)).reshape(-1, 5, ACT)
        best = self.logits(features).argmax(-1)
        return means[torch.arange(means.shape[0]), best]


@people.case(obs(OBS), then=HINT)
def bc_rnn_gmm() -> nn.Module:
    return BcRnnGmm()


class VqBet(nn.Module):
    """A code by its likelihood, its entry of the codebook, and an offset of its own."""

    codebook: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.codes = mlp(OBS, 32, 32), nn.Linear(32, 12)
        self.offsets = nn.Linear(32, 12 * ACT)
        self.register_buffer("codebook", torch.randn(12, ACT))

    def forward(self, obs: Tensor) -> Tensor:
        features = torch.relu(self.trunk(obs))
        index = self.codes(features).argmax(dim=-1)
        offsets = self.offsets(features).view(-1, 12, ACT)
        chosen = torch.gather(offsets, 1, index[:, None, None].expand(-1, 1, ACT)).squeeze(1)
        return functional.embedding(index, self.codebook) + 0.1 * chosen


@people.case(obs(OBS))
def vq_bet() -> nn.Module:
    return VqBet()


class Implicit(nn.Module):
    """IBC: the action of least energy on a grid."""

    grid: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.energy = mlp(OBS + ACT, 32, 1)
        axis = torch.linspace(-1, 1, 9)
        self.register_buffer("grid", torch.cartesian_prod(axis, axis))

    def forward(self, obs: Tensor) -> Tensor:
        pairs = torch.cat(
            [obs[:, None].expand(-1, 81, -1), self.grid.expand(obs.shape[0], -1, -1)], -1
        )
        return self.grid[self.energy(pairs).squeeze(-1).argmin(dim=1)]


@people.case(obs(OBS))
def implicit_grid() -> nn.Module:
    return Implicit()


class Consistency(nn.Module):
    """One step from noise to action, with the boundary's skip coefficients."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBS + ACT + 1, 64, ACT, activation=nn.GELU)

    def forward(self, obs: Tensor, noise: Tensor) -> Tensor:
        sigma, data = torch.tensor(80.0), 0.5
        skip = data**2 / ((sigma - 0.002) ** 2 + data**2)
        out = data * (sigma - 0.002) / (data**2 + sigma**2).sqrt()
        scaled = noise * sigma / (sigma**2 + data**2).sqrt()
        t = (0.25 * sigma.log()).expand(obs.shape[0], 1)
        action: Tensor = skip * noise * sigma + out * self.net(torch.cat([obs, scaled, t], -1))
        return action.clamp(-1, 1)


@people.case({"obs": torch.zeros(1, OBS), "noise": torch.zeros(1, ACT)})
def consistency() -> nn.Module:
    return Consistency()
