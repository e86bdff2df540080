"""Tolerances are measured: good policies of any scale pass, and a tiny wrong weight is seen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw

SEEDS = (0, 1, 2)
GOOD: dict[str, Callable[[], rw.Source]] = {}
# Right artifacts were never further from the exact policy than so many times PyTorch's rounding.
RIGHT = 8.0


def good(make: Callable[[], rw.Source]) -> Callable[[], rw.Source]:
    GOOD[make.__name__] = make
    return make


def net(inputs: int = 6, outputs: int = 1, width: int = 64) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, width), nn.ELU(), nn.Linear(width, width), nn.ELU(),
        nn.Linear(width, outputs),
    )  # fmt: skip


class Around(nn.Module):
    """A network with something done to what enters and leaves it."""

    def __init__(
        self,
        before: Callable[[Tensor], Tensor],
        after: Callable[[Tensor], Tensor],
        outputs: int = 1,
    ) -> None:
        super().__init__()
        self.net, self.before, self.after = net(outputs=outputs), before, after

    def forward(self, obs: Tensor) -> Tensor:
        return self.after(self.net(self.before(obs)))


def same(values: Tensor) -> Tensor:
    return values


def obs(size: int = 6) -> dict[str, Tensor]:
    return {"obs": torch.zeros(1, size)}


@good
def scale_offset() -> rw.Source:
    return rw.Source(net(), example=obs(), action=rw.ScaleOffset(scale=100.0, offset=3.0))


@good
def wide_bounds() -> rw.Source:
    steps = (rw.Tanh(), rw.ScaleToBounds(low=[-100.0], high=[100.0]))
    return rw.Source(net(), example=obs(), action=steps)


class Valued(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.actor, self.critic = net(outputs=3), net()

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        return self.actor(obs), self.critic(obs) * 300


@good
def value_head() -> rw.Source:
    return rw.Source(Valued(), example=obs(), outputs=("actions", "value"))


@good
def large_observations() -> rw.Source:
    return rw.Source(Around(lambda x: x * 20, same), example=obs())


@good
def mixed_scales() -> rw.Source:
    scales = torch.tensor([1e-3, 1e-1, 1.0, 1e2, 1e4])
    return rw.Source(Around(same, lambda y: y * scales, outputs=5), example=obs())


@good
def motor_ticks() -> rw.Source:
    return rw.Source(Around(same, lambda y: torch.round(y * 2048) / 2048, outputs=8), example=obs())


@good
def half_inside() -> rw.Source:
    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(6, 64), nn.Linear(64, 2)

        def forward(self, obs: Tensor) -> Tensor:
            return self.last(torch.tanh(self.first(obs)).half().float())

    return rw.Source(Half(), example=obs())


@good
def close_logits() -> rw.Source:
    class Close(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net()

        def forward(self, obs: Tensor) -> Tensor:
            shared = self.net(obs)
            return shared * (1 + 1e-7 * torch.arange(4.0)) + 1e-8 * obs[:, :4]

    return rw.Source(Close(), example=obs(), action=rw.Argmax())


@good
def best_of_equals() -> rw.Source:
    class TopK(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net(outputs=4)

        def forward(self, obs: Tensor) -> Tensor:
            values = self.net(obs)
            return torch.cat([values, values + 1e-9], -1).topk(3, dim=-1).indices

    return rw.Source(TopK(), example=obs())


class Rnn(nn.Module):
    """h ← tanh(W h + U obs), whose weights are large enough for chaos."""

    def __init__(self, gain: float) -> None:
        super().__init__()
        self.w = nn.Parameter(gain * torch.randn(32, 32) / 32**0.5)
        self.u, self.head = nn.Linear(6, 32), nn.Linear(32, 2)

    def forward(self, obs: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(h @ self.w.T + self.u(obs))
        return self.head(h), h


def rnn(gain: float) -> rw.Source:
    return rw.Source(Rnn(gain), example=obs(), memory={"h": torch.zeros(1, 32)})


for gain in (1.2, 2.0, 3.0):
    GOOD[f"rnn_{gain}"] = lambda gain=gain: rnn(gain)  # type: ignore[misc]


@good
def loud_gru() -> rw.Source:
    class Gru(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = nn.GRUCell(6, 16), nn.Linear(16, 2)
            with torch.no_grad():
                for each in self.cell.parameters():
                    each.mul_(8)

        def forward(self, obs: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            h = self.cell(obs, h)
            return self.head(h), h

    return rw.Source(Gru(), example=obs(), memory={"h": torch.zeros(1, 16)})


@good
def integrator() -> rw.Source:
    class Integrates(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net(outputs=2)

        def forward(self, obs: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
            total = total + 0.01 * self.net(obs)
            return total - 1e4, total

    return rw.Source(Integrates(), example=obs(), memory={"total": torch.full((1, 2), 1e4)})


def made(name: str, seed: int) -> rw.Source:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(100 + seed)
        return GOOD[name]()


def worst(certificate: rw.Certificate) -> float:
    found = [each.roundings for check in certificate.checks for each in check.differences]
    return max(each for each in found if each is not None) if any(found) else 0.0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", GOOD)
def test_a_good_policy_of_any_scale_is_certified(name: str, seed: int, tmp_path: Path) -> None:
    rw.export(made(name, seed), tmp_path / "b")
    certificate = rw.verify(tmp_path / "b", against=made(name, seed), seed=seed + 1)
    certificate.raise_if_failed()
    assert worst(certificate) < RIGHT
    rw.verify(tmp_path / "b").raise_if_failed()
