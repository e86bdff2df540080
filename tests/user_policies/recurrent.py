"""Cells of one's own: state-space models, linear attention, liquid and spiking networks."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.user_policies.cases import HINT, Family, carrying, mlp, obs

people = Family("recurrent cells")

OBS, ACT, WIDTH = 8, 3, 12


def handed(*shapes: tuple[int, ...]) -> dict[str, Any]:
    """Memory that `forward` takes and returns: as keywords, and for the original."""
    names = ("a", "b", "c")[: len(shapes)]

    def start() -> tuple[Tensor, ...]:
        return tuple(torch.zeros(1, *shape) for shape in shapes)

    def step(module: nn.Module, given: Any, state: Any) -> Any:
        action, *state = module(given["obs"], *state)
        return action, state

    return {"memory": dict(zip(names, start(), strict=True)), "live": carrying(step, start)}


class DiagonalSsm(nn.Module):
    """S4D in its recurrent form, real and imaginary parts apart."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.head = nn.Linear(OBS, WIDTH), mlp(WIDTH, 16, ACT)
        self.rate, self.angle = (
            nn.Parameter(torch.randn(WIDTH, 4)),
            nn.Parameter(torch.randn(WIDTH, 4)),
        )
        self.c = nn.Parameter(torch.randn(WIDTH, 4, 2) / 2)

    def forward(self, obs: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        u = self.into(obs).unsqueeze(-1)
        decay = torch.exp(-functional.softplus(self.rate))
        cos, sin = decay * torch.cos(self.angle), decay * torch.sin(self.angle)
        real, imag = cos * a - sin * b + u, sin * a + cos * b
        y = (real * self.c[..., 0] - imag * self.c[..., 1]).sum(-1)
        return self.head(functional.gelu(y)), real, imag


@people.case(obs(OBS), **handed((WIDTH, 4), (WIDTH, 4)))
def diagonal_ssm() -> nn.Module:
    return DiagonalSsm()


class Mamba(nn.Module):
    """A selective scan, one step at a time: a rolling convolution, and a gated state."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.conv = nn.Linear(OBS, 2 * WIDTH), nn.Parameter(torch.randn(WIDTH, 4) / 2)
        self.select, self.step = nn.Linear(WIDTH, 1 + 2 * 4), nn.Linear(1, WIDTH)
        self.log_a = nn.Parameter(torch.log(torch.arange(1.0, 5.0)).repeat(WIDTH, 1))
        self.skip, self.out = nn.Parameter(torch.ones(WIDTH)), nn.Linear(WIDTH, ACT)

    def forward(self, obs: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, gate = self.project(obs).chunk(2, -1)
        window = torch.cat([a[:, :, 1:], x.unsqueeze(-1)], -1)
        x = functional.silu((window * self.conv).sum(-1))
        dt, into, outof = self.select(x).split([1, 4, 4], dim=-1)
        dt = functional.softplus(self.step(dt))
        decay = torch.exp(dt.unsqueeze(-1) * -torch.exp(self.log_a))
        state = b * decay + (dt * x).unsqueeze(-1) * into.unsqueeze(1)
        y = torch.einsum("bdn,bn->bd", state, outof) + self.skip * x
        return self.out(y * functional.silu(gate)), window, state


@people.case(obs(OBS), **handed((WIDTH, 4), (WIDTH, 4)))
def mamba() -> nn.Module:
    return Mamba()


class LinearAttention(nn.Module):
    """Keys and values summed up in a matrix, and its normaliser."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.head = nn.Linear(OBS, 3 * WIDTH), nn.Linear(WIDTH, ACT)

    def forward(self, obs: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = self.qkv(obs).chunk(3, -1)
        q, k = functional.elu(q) + 1, functional.elu(k) + 1
        a = 0.95 * a + k.unsqueeze(-1) * v.unsqueeze(-2)
        b = 0.95 * b + k
        read = (q.unsqueeze(-2) @ a).squeeze(-2) / ((q * b).sum(-1, keepdim=True) + 1e-6)
        return self.head(read), a, b


@people.case(obs(OBS), **handed((WIDTH, WIDTH), (WIDTH,)))
def linear_attention() -> nn.Module:
    return LinearAttention()


class MinGru(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.z, self.h, self.head = (
            nn.Linear(OBS, WIDTH),
            nn.Linear(OBS, WIDTH),
            nn.Linear(WIDTH, ACT),
        )

    def forward(self, obs: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
        z, h = torch.sigmoid(self.z(obs)), self.h(obs)
        h = torch.where(h >= 0, h + 0.5, torch.sigmoid(h))
        a = (1 - z) * a + z * h
        return self.head(a), a


@people.case(obs(OBS), **handed((WIDTH,)))
def min_gru() -> nn.Module:
    return MinGru()


class Liquid(nn.Module):
    """A liquid time-constant cell: six fused steps of its solver a call."""

    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Linear(OBS + WIDTH, WIDTH)
        self.tau, self.a = nn.Parameter(torch.rand(WIDTH) + 0.5), nn.Parameter(torch.randn(WIDTH))
        self.head = nn.Linear(WIDTH, ACT)
        self.x = torch.zeros(1, WIDTH)

    def forward(self, obs: Tensor) -> Tensor:
        x, dt = self.x, 0.1 / 6
        for _ in range(6):
            f = torch.sigmoid(self.f(torch.cat([obs, x], -1)))
            x = (x + dt * f * self.a) / (1 + dt * (1 / self.tau + f))
        self.x = x
        action: Tensor = self.head(x)
        return action


@people.case(obs(OBS), then=HINT)
def liquid() -> nn.Module:
    return Liquid()


class Spiking(nn.Module):
    """Leaky integrate-and-fire, five inner steps; the spike's surrogate is for training only."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(OBS, WIDTH), nn.Linear(WIDTH, ACT)
        self.v = torch.zeros(1, WIDTH)

    def forward(self, obs: Tensor) -> Tensor:
        current, v, total = self.into(obs), self.v, torch.zeros(obs.shape[0], ACT)
        for _ in range(5):
            v = 0.8 * v + current
            spike = (v >= 1.0).to(v.dtype)
            v = v * (1.0 - spike)
            total = total + self.out(spike)
        self.v = v
        return total / 5


@people.case(obs(OBS), then=HINT)
def spiking() -> nn.Module:
    return Spiking()


class EchoState(nn.Module):
    """A fixed reservoir, leaky, with a trained readout."""

    reservoir: Tensor

    def __init__(self) -> None:
        super().__init__()
        weights = torch.randn(40, 40) * (torch.rand(40, 40) < 0.2)
        self.register_buffer("reservoir", 0.9 * weights / torch.linalg.matrix_norm(weights, 2))
        self.register_buffer("into", torch.randn(40, OBS) * 0.5)
        self.readout = nn.Linear(40 + OBS, ACT)
        self.register_buffer("state", torch.zeros(1, 40), persistent=False)

    def forward(self, obs: Tensor) -> Tensor:
        new = torch.tanh(obs @ self.into.T + self.state @ self.reservoir.T)  # type: ignore[operator]
        self.state = 0.7 * self.state + 0.3 * new
        action: Tensor = self.readout(torch.cat([self.state, obs], -1))
        return action


@people.case(obs(OBS), then=HINT)
def echo_state() -> nn.Module:
    return EchoState()


class ConvLstm(nn.Module):
    """A ConvLSTM over a depth image; its state is two images."""

    def __init__(self) -> None:
        super().__init__()
        self.gates, self.head = nn.Conv2d(1 + 4, 16, 3, padding=1), nn.Linear(4 * 36, ACT)

    def forward(self, obs: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        i, f, o, g = torch.split(self.gates(torch.cat([obs, a], 1)), 4, dim=1)
        b = torch.sigmoid(f) * b + torch.sigmoid(i) * torch.tanh(g)
        a = torch.sigmoid(o) * torch.tanh(b)
        return self.head(a.flatten(1)), a, b


@people.case({"obs": torch.zeros(1, 1, 6, 6)}, **handed((4, 6, 6), (4, 6, 6)))
def conv_lstm() -> nn.Module:
    return ConvLstm()


class ProjectedLstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = (
            nn.LSTM(OBS, WIDTH, 2, batch_first=True, proj_size=5),
            nn.Linear(5, ACT),
        )
        self.state: Any = None

    def forward(self, obs: Tensor) -> Tensor:
        out, self.state = self.rnn(obs[:, None], self.state)
        action: Tensor = self.head(out[:, 0])
        return action


@people.case(obs(OBS), then=HINT)
def projected_lstm() -> nn.Module:
    return ProjectedLstm()


class Fourier(nn.Module):
    """A clock of its own frequencies, advanced by what is observed."""

    def __init__(self) -> None:
        super().__init__()
        self.rate, self.head = mlp(OBS, 16, 4), nn.Linear(OBS + 8, ACT)
        self.phase = torch.zeros(1, 4)

    def forward(self, obs: Tensor) -> Tensor:
        self.phase = (self.phase + 0.05 * torch.sigmoid(self.rate(obs))) % (2 * math.pi)
        waves = torch.cat([self.phase.sin(), self.phase.cos()], -1)
        action: Tensor = self.head(torch.cat([obs, waves], -1))
        return action


@people.case(obs(OBS), then=HINT)
def own_clock() -> nn.Module:
    return Fourier()
