"""Good policies of unusual kinds: scales, ties, chaos, odd dtypes, long memories. None is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import roadworthy as rw

OBS = 6
UNUSUAL: dict[str, Callable[[], rw.Source]] = {}


def unusual(make: Callable[[], rw.Source]) -> Callable[[], rw.Source]:
    UNUSUAL[make.__name__] = make
    return make


def net(inputs: int = OBS, outputs: int = 3, width: int = 32) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, width), nn.ELU(), nn.Linear(width, width), nn.ELU(),
        nn.Linear(width, outputs),
    )  # fmt: skip


class After(nn.Module):
    """A network, and a function of its output and of the observation."""

    def __init__(self, function: Callable[[Tensor, Tensor], Any], outputs: int = 3) -> None:
        super().__init__()
        self.net, self.function = net(outputs=outputs), function

    def forward(self, obs: Tensor) -> Any:
        return self.function(self.net(obs), obs)


class Carries(nn.Module):
    """A network whose output changes one memory: `function(y, memory)` → (actions, memory)."""

    def __init__(self, function: Callable[[Tensor, Tensor], Any], outputs: int = 3) -> None:
        super().__init__()
        self.net, self.function = net(outputs=outputs), function

    def forward(self, obs: Tensor, state: Tensor) -> Any:
        return self.function(self.net(obs), state)


def obs(*shape: int) -> dict[str, Tensor]:
    return {"obs": torch.zeros(1, *(shape or (OBS,)))}


def after(function: Callable[[Tensor, Tensor], Any], outputs: int = 3, **said: Any) -> rw.Source:
    return rw.Source(After(function, outputs), **({"example": obs()} | said))


def carries(function: Callable[[Tensor, Tensor], Any], start: Tensor) -> rw.Source:
    return rw.Source(Carries(function), example=obs(), memory={"state": start})


# --- scales ---------------------------------------------------------------------------------------


@unusual
def one_output_of_scale_10() -> rw.Source:
    return after(lambda y, x: y * 10, outputs=1)


@unusual
def one_output_of_scale_40() -> rw.Source:
    return after(lambda y, x: y * 40, outputs=1)


@unusual
def one_output_of_scale_100() -> rw.Source:
    return after(lambda y, x: y * 100, outputs=1)


@unusual
def tiny_outputs() -> rw.Source:
    return after(lambda y, x: y * 1e-6)


@unusual
def huge_outputs() -> rw.Source:
    return after(lambda y, x: y * 1e8)


@unusual
def clipped_to_100() -> rw.Source:
    steps = (rw.ScaleOffset(scale=300.0), rw.Clip(low=-100.0, high=100.0))
    return rw.Source(net(outputs=2), example=obs(), action=steps)


@unusual
def far_offset() -> rw.Source:
    return after(lambda y, x: y + 1e4)


@unusual
def there_and_back() -> rw.Source:
    return after(lambda y, x: (y + 1e4) - 1e4)


@unusual
def observations_of_mixed_scale() -> rw.Source:
    high = [1e-3, 1.0, 10.0, 1e3, 1e4, 1e5]
    about = {"obs": rw.About(low=[-each for each in high], high=high)}
    return after(lambda y, x: y, about=about)


@unusual
def normaliser_of_mixed_scale() -> rw.Source:
    scale = np.array([1e-4, 1e-2, 1.0, 1e2, 1e4, 1e5])
    statistics = rw.EpsInsideRoot(mean=scale, var=scale**2, eps=1e-8, clip=10.0)
    return rw.Source(net(), example=obs(), normalizer=statistics)


@unusual
def wide_layers() -> rw.Source:
    return rw.Source(net(width=512), example=obs())


@unusual
def deep() -> rw.Source:
    layers = [layer for _ in range(16) for layer in (nn.Linear(24, 24), nn.Tanh())]
    module = nn.Sequential(nn.Linear(OBS, 24), *layers, nn.Linear(24, 2))
    return rw.Source(module, example={"input": torch.zeros(1, OBS)})


@unusual
def loud_weights() -> rw.Source:
    module = net()
    with torch.no_grad():
        for each in module.parameters():
            each.mul_(30)
    return rw.Source(module, example={"input": torch.zeros(1, OBS)})


@unusual
def cancellation() -> rw.Source:
    return after(lambda y, x: (y * y).sum(-1, keepdim=True) - (y * y * 1.0001).sum(-1, True))


# --- chaos and long memories ----------------------------------------------------------------------


class Rnn(nn.Module):
    def __init__(self, gain: float, size: int = 48) -> None:
        super().__init__()
        self.w = nn.Parameter(gain * torch.randn(size, size) / size**0.5)
        self.u, self.head = nn.Linear(OBS, size), nn.Linear(size, 2)

    def forward(self, obs: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(h @ self.w.T + self.u(obs))
        return self.head(h) * 20, h


@unusual
def chaotic_and_loud() -> rw.Source:
    return rw.Source(Rnn(2.0), example=obs(), memory={"h": torch.zeros(1, 48)})


@unusual
def very_chaotic() -> rw.Source:
    return rw.Source(Rnn(5.0), example=obs(), memory={"h": torch.zeros(1, 48)})


@unusual
def logistic_map() -> rw.Source:
    def step(y: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state = 3.99 * state * (1 - state)
        return y + state, state

    return carries(step, torch.full((1, 3), 0.3))


@unusual
def position_at_10000() -> rw.Source:
    def step(y: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state = state + 0.02 * y
        return state, state

    return carries(step, torch.full((1, 3), 1e4))


@unusual
def leaky_integrator() -> rw.Source:
    def step(y: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state = 0.999 * state + y
        return 0.01 * state, state

    return carries(step, torch.zeros(1, 3))


@unusual
def bias_corrected_mean() -> rw.Source:
    class Mean(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net()

        def forward(self, obs: Tensor, mean: Tensor, count: Tensor) -> Any:
            count = count + 1
            mean = mean + (self.net(obs) - mean) / count
            return mean, mean, count

    memory = {"mean": torch.zeros(1, 3), "count": torch.zeros(1, 1)}
    return rw.Source(Mean(), example=obs(), memory=memory)


@unusual
def loud_lstm() -> rw.Source:
    class Lstm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = nn.LSTMCell(OBS, 16), nn.Linear(16, 2)
            with torch.no_grad():
                for each in self.cell.parameters():
                    each.mul_(8)

        def forward(self, obs: Tensor, h: Tensor, c: Tensor) -> Any:
            h, c = self.cell(obs, (h, c))
            return self.head(h), h, c

    return rw.Source(
        Lstm(), example=obs(), memory={"h": torch.zeros(1, 16), "c": torch.zeros(1, 16)}
    )


@unusual
def projected_lstm() -> rw.Source:
    class Projected(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.head = nn.LSTM(OBS, 16, proj_size=8), nn.Linear(8, 2)

        def forward(self, obs: Tensor, h: Tensor, c: Tensor) -> Any:
            y, (h, c) = self.rnn(obs.unsqueeze(0), (h, c))
            return self.head(y.squeeze(0)), h, c

    memory = {"h": torch.zeros(1, 1, 8), "c": torch.zeros(1, 1, 16)}
    return rw.Source(Projected(), example=obs(), memory=memory)


@unusual
def delayed_by_40() -> rw.Source:
    def step(y: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return state[:, 0], torch.cat([state[:, 1:], y.unsqueeze(1)], 1)

    return carries(step, torch.zeros(1, 40, 3))


@unusual
def ring_of_30() -> rw.Source:
    class Ring(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net()

        def forward(self, obs: Tensor, ring: Tensor, place: Tensor) -> Any:
            at = torch.arange(30) == place
            old = (ring * at.unsqueeze(-1)).sum(1)
            ring = torch.where(at.unsqueeze(-1), self.net(obs).unsqueeze(1), ring)
            return old, ring, (place + 1) % 30

    memory = {"ring": torch.zeros(1, 30, 3), "place": torch.zeros(1, 1, dtype=torch.int64)}
    return rw.Source(Ring(), example=obs(), memory=memory)


@unusual
def schedule_of_300_steps() -> rw.Source:
    def step(y: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state = state + 1
        return torch.where(state > 300, y, y * 0.5), state

    return carries(step, torch.zeros(1, 1))


@unusual
def phase_that_wraps() -> rw.Source:
    def step(y: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state = torch.remainder(state + 0.013, 1.0)
        return y + torch.sin(2 * math.pi * state), state

    return carries(step, torch.zeros(1, 1))


@unusual
def rate_limiter() -> rw.Source:
    def step(y: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state = state + (y - state).clamp(-0.05, 0.05)
        return state, state

    return carries(step, torch.zeros(1, 3))


@unusual
def hysteresis() -> rw.Source:
    def step(y: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state = torch.where(y > 0.1, 1.0, torch.where(y < -0.1, 0.0, state))
        return y * state, state

    return carries(step, torch.zeros(1, 3))


@unusual
def debounced_flag() -> rw.Source:
    def step(y: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state = torch.where(y > 0, state + 1, torch.zeros_like(state))
        return torch.where(state > 5, y, -y), state

    return carries(step, torch.zeros(1, 3, dtype=torch.int64))


@unusual
def second_order_filter() -> rw.Source:
    def step(y: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        one, two = state.unbind(1)
        new = y + 1.8 * one - 0.82 * two
        return 0.02 * new, torch.stack([new, one], 1)

    return carries(step, torch.zeros(1, 2, 3))


# --- choices, ties and roundings ------------------------------------------------------------------


@unusual
def ticks_of_4096() -> rw.Source:
    return after(lambda y, x: torch.round(y * 4096 / math.tau) * (math.tau / 4096))


@unusual
def floor_to_millimetres() -> rw.Source:
    return after(lambda y, x: torch.floor(y * 1000) / 1000)


@unusual
def whole_ticks() -> rw.Source:
    return after(lambda y, x: torch.round(y * 2048).to(torch.int32))


@unusual
def signs_only() -> rw.Source:
    return after(lambda y, x: torch.sign(y))


@unusual
def bang_bang() -> rw.Source:
    return after(lambda y, x: torch.where(y > 0, 1.0, -1.0))


@unusual
def logits_close_by() -> rw.Source:
    def close(y: Tensor, x: Tensor) -> Tensor:
        return y[:, :1] + 1e-7 * x[:, :4]

    return after(close, action=rw.Argmax())


@unusual
def equal_logits() -> rw.Source:
    return after(lambda y, x: torch.cat([y, y], -1), action=rw.Argmax())


@unusual
def top_two_of_equals() -> rw.Source:
    def best(y: Tensor, x: Tensor) -> Tensor:
        return torch.cat([y, y], -1).topk(2, dim=-1).values

    return after(best)


@unusual
def chosen_by_topk() -> rw.Source:
    def chosen(y: Tensor, x: Tensor) -> Tensor:
        return x.gather(-1, y.topk(2, dim=-1).indices)

    return after(chosen, outputs=OBS)


@unusual
def sorted_outputs() -> rw.Source:
    return after(lambda y, x: y.sort(dim=-1).values, outputs=8)


@unusual
def order_of_outputs() -> rw.Source:
    return after(lambda y, x: y.argsort(dim=-1), outputs=5)


@unusual
def binned_action() -> rw.Source:
    edges = torch.linspace(-1, 1, 11)

    def binned(y: Tensor, x: Tensor) -> Tensor:
        return torch.bucketize(y, edges).float() / 5 - 1

    return after(binned)


@unusual
def one_hot_choice() -> rw.Source:
    return after(lambda y, x: functional.one_hot(y.argmax(-1), 4).float(), outputs=4)


@unusual
def many_choices() -> rw.Source:
    return rw.Source(net(outputs=24), example=obs(), action=rw.MultiDiscrete(sizes=(8, 8, 8)))


@unusual
def masked_choice_of_many() -> rw.Source:
    return rw.Source(net(outputs=40), example=obs(), action=rw.Argmax(mask="allowed"))


# --- dtypes ---------------------------------------------------------------------------------------


@unusual
def half_in_the_middle() -> rw.Source:
    return after(lambda y, x: (y.half() * 2).float())


@unusual
def double_constants() -> rw.Source:
    gains = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    return after(lambda y, x: (y * gains).float())


@unusual
def double_in_the_middle() -> rw.Source:
    return after(lambda y, x: y.double().exp().log1p().float())


@unusual
def numpy_constants() -> rw.Source:
    gains = np.array([0.1, 0.2, 0.3])
    return after(lambda y, x: y * torch.as_tensor(gains, dtype=torch.float32))


@unusual
def integer_command() -> rw.Source:
    class Commanded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.gains = net(), nn.Embedding(4, 3)

        def forward(self, obs: Tensor, command: Tensor) -> Tensor:
            return self.net(obs) * self.gains(command.clamp(0, 3))

    example = obs() | {"command": torch.zeros(1, dtype=torch.int64)}
    about = {"command": rw.About(low=0, high=3)}
    return rw.Source(Commanded(), example=example, about=about)


@unusual
def pixels() -> rw.Source:
    module = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(392, 3))

    class Eyes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = module

        def forward(self, image: Tensor) -> Tensor:
            return self.net(image.float() / 255 - 0.5)

    image = torch.zeros(1, 3, 16, 16, dtype=torch.uint8)
    return rw.Source(Eyes(), example={"image": image})


# --- structures -----------------------------------------------------------------------------------


@unusual
def batch_norm() -> rw.Source:
    module = nn.Sequential(nn.Linear(OBS, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    for _ in range(10):
        module(3 * torch.randn(64, OBS) + 1)
    return rw.Source(module.eval(), example={"input": torch.zeros(1, OBS)})


@unusual
def attention_over_tokens() -> rw.Source:
    class Attends(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Linear(5, 16)
            self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
            self.head = nn.Linear(16, 3)

        def forward(self, tokens: Tensor) -> Tensor:
            x = self.embed(tokens)
            return self.head(self.attention(x, x, x, need_weights=False)[0].mean(1))

    return rw.Source(Attends(), example={"tokens": torch.zeros(1, 7, 5)})


@unusual
def masked_mean_of_tokens() -> rw.Source:
    class Pools(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Linear(5, 16), nn.Linear(16, 3)

        def forward(self, tokens: Tensor, present: Tensor) -> Tensor:
            weight = present.float().unsqueeze(-1)
            x = (self.embed(tokens).relu() * weight).sum(1)
            return self.head(x / weight.sum(1).clamp(min=1.0))

    example = {"tokens": torch.zeros(1, 7, 5), "present": torch.ones(1, 7, dtype=torch.bool)}
    return rw.Source(Pools(), example=example)


@unusual
def ensemble_of_five() -> rw.Source:
    class Ensemble(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.members = nn.ModuleList(net() for _ in range(5))

        def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
            answers = torch.stack([each(obs) for each in self.members])
            return answers.mean(0), answers.var(0)

    return rw.Source(Ensemble(), example=obs(), outputs=("actions", "spread"))


@unusual
def rotation_of_gravity() -> rw.Source:
    class Turns(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net(3)

        def forward(self, quaternion: Tensor) -> Tensor:
            q = quaternion / quaternion.norm(dim=-1, keepdim=True).clamp(min=1e-6)
            w, x, y, z = q.unbind(-1)
            down = [2 * (w * y - x * z), -2 * (y * z + w * x), 2 * (x * x + y * y) - 1]
            return self.net(torch.stack(down, -1))

    about = {"quaternion": rw.About(low=-1, high=1)}
    return rw.Source(Turns(), example={"quaternion": torch.zeros(1, 4)}, about=about)


@unusual
def softmax_with_temperature() -> rw.Source:
    return after(lambda y, x: (y * 50).softmax(-1), outputs=6)


@unusual
def log_probabilities() -> rw.Source:
    return after(lambda y, x: (y * 5).log_softmax(-1), outputs=6)


@unusual
def mean_and_log_std() -> rw.Source:
    def split(y: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, spread = y.chunk(2, -1)
        return mean.tanh(), spread.clamp(-20, 2).exp()

    return rw.Source(After(split, 6), example=obs(), outputs=("actions", "std"))


@unusual
def fourier_features() -> rw.Source:
    class Fourier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("frequencies", 2.0 ** torch.arange(6))
            self.net = net(2 * 6 * OBS)

        def forward(self, obs: Tensor) -> Tensor:
            angles = (obs.unsqueeze(-1) * self.frequencies).flatten(1)
            return self.net(torch.cat([angles.sin(), angles.cos()], -1))

    about = {"obs": rw.About(low=-1, high=1)}
    return rw.Source(Fourier(), example=obs(), about=about)


@unusual
def inverse_kinematics() -> rw.Source:
    def reach(y: Tensor, x: Tensor) -> Tensor:
        distance = y[:, :2].norm(dim=-1).clamp(0.1, 1.9)
        elbow = torch.acos((distance**2 - 2) / 2)
        return torch.stack([torch.atan2(y[:, 1], y[:, 0]) - elbow / 2, elbow], -1)

    return after(reach)


@unusual
def pd_controller() -> rw.Source:
    def torques(y: Tensor, x: Tensor) -> Tensor:
        return (60.0 * (0.25 * y - x[:, :3]) - 1.5 * x[:, 3:]).clamp(-80, 80)

    return after(torques)


@unusual
def gated_experts() -> rw.Source:
    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate, self.experts = nn.Linear(OBS, 4), nn.Linear(OBS, 12)

        def forward(self, obs: Tensor) -> Tensor:
            chosen = self.gate(obs).argmax(-1)
            answers = self.experts(obs).unflatten(-1, (4, 3))
            return answers.gather(1, chosen.view(-1, 1, 1).expand(-1, 1, 3)).squeeze(1)

    return rw.Source(Gated(), example=obs())


@unusual
def dead_zone() -> rw.Source:
    return after(lambda y, x: torch.where(y.abs() < 0.05, torch.zeros_like(y), y))


@unusual
def long_history() -> rw.Source:
    class History(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net(25 * OBS)

        def forward(self, obs: Tensor, history: Tensor) -> tuple[Tensor, Tensor]:
            history = torch.cat([history[:, 1:], obs.unsqueeze(1)], 1)
            return self.net(history.flatten(1)), history

    return rw.Source(History(), example=obs(), memory={"history": torch.zeros(1, 25, OBS)})


@unusual
def dilated_convolutions() -> rw.Source:
    class Dilated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(
                nn.Conv1d(OBS, 8, 3, dilation=2), nn.ReLU(), nn.Conv1d(8, 8, 3, dilation=4)
            )
            self.head = nn.Linear(8, 3)

        def forward(self, obs: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
            past = torch.cat([past[:, :, 1:], obs.unsqueeze(-1)], -1)
            return self.head(self.net(past)[:, :, -1]), past

    return rw.Source(Dilated(), example=obs(), memory={"past": torch.zeros(1, OBS, 16)})


@unusual
def cumulative_sums() -> rw.Source:
    return after(lambda y, x: y.cumsum(-1), outputs=32)


@unusual
def polynomial_features() -> rw.Source:
    return after(lambda y, x: y + 1e-3 * x[:, :3] ** 3 - x[:, 3:] ** 2)


@unusual
def saturated() -> rw.Source:
    return after(lambda y, x: torch.tanh(200 * y))
