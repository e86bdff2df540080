"""Modules around the network: compiled, scripted, parametrised, lazy, normalised, bare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import roadworthy as rw
from tests.user_policies.cases import HINT, Family, Live, mlp, obs

people = Family("wrappers")

OBS, ACT = 8, 3


@people.case(obs(OBS))
def compiled() -> nn.Module:
    module: nn.Module = torch.compile(mlp(OBS, 32, ACT))  # type: ignore[assignment]
    return module


@people.case(torch.zeros(1, OBS))
def data_parallel() -> nn.Module:
    return nn.DataParallel(mlp(OBS, 32, ACT))


class RunningNorm(nn.Module):
    """As rl_games writes it: scripted, with a mask that may be left out."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.linspace(-1, 1, OBS).double())
        self.register_buffer("var", torch.linspace(0.5, 2, OBS).double())

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is not None:
            x = x * mask
        y = (x - self.mean.float()) / torch.sqrt(self.var.float() + 1e-5)  # type: ignore[operator]
        return torch.clamp(y, min=-5.0, max=5.0)


class Scripted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.net = torch.jit.script(RunningNorm()), mlp(OBS, 32, ACT)

    def forward(self, obs: Tensor) -> Tensor:
        action: Tensor = self.net(self.norm(obs))
        return action


@people.case(obs(OBS))
def scripted_part() -> nn.Module:
    return Scripted()


# TorchScript all through: the Python module that it was made from is asked for.
@people.case(obs(OBS), refused="RW001")
def scripted_whole() -> nn.Module:
    module: nn.Module = torch.jit.script(mlp(OBS, 32, ACT))
    return module


# A file that `torch.jit.trace` left behind: its Python class is gone.
@people.case(obs(OBS), refused="RW001")
def traced_file() -> nn.Module:
    import io

    file = io.BytesIO()
    torch.jit.save(torch.jit.trace(mlp(OBS, 32, ACT), torch.zeros(1, OBS)), file)
    file.seek(0)
    module: nn.Module = torch.jit.load(file)
    return module


@people.case(obs(OBS))
def weight_normed() -> nn.Module:
    return nn.Sequential(
        parametrizations.weight_norm(nn.Linear(OBS, 32)), nn.Tanh(), nn.Linear(32, ACT)
    )


@people.case(obs(OBS))
def spectral_normed() -> nn.Module:
    return nn.Sequential(
        parametrizations.spectral_norm(nn.Linear(OBS, 32)), nn.Tanh(), nn.Linear(32, ACT)
    )


@people.case(obs(OBS))
def old_weight_norm() -> nn.Module:
    return nn.Sequential(nn.utils.weight_norm(nn.Linear(OBS, 32)), nn.Tanh(), nn.Linear(32, ACT))


@people.case(obs(OBS))
def left_in_training() -> nn.Module:
    return nn.Sequential(
        nn.Linear(OBS, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, ACT)
    ).train()


@people.case(obs(OBS))
def lazy_that_ran() -> nn.Module:
    net = nn.Sequential(nn.LazyLinear(32), nn.SiLU(), nn.LazyLinear(ACT))
    net(torch.zeros(1, OBS))
    return net


# Never run: it says which weight has no size.
@people.case(obs(OBS), refused="RW001")
def lazy_that_never_ran() -> nn.Module:
    return nn.Sequential(nn.LazyLinear(32), nn.SiLU(), nn.LazyLinear(ACT))


def normalised(module: nn.Module) -> Live:
    return lambda given: module(((given["obs"] - 0.1) / 2.0**0.5).clamp(-10, 10))


STATISTICS = rw.EpsInsideRoot(mean=[0.1] * OBS, var=[2.0] * OBS, eps=1e-8, clip=10.0)


@people.case(obs(OBS), normalizer=STATISTICS, live=normalised)
def vec_normalize() -> nn.Module:
    return mlp(OBS, 32, ACT)


class RunningMeanStd(nn.Module):
    """Learns while it runs, in training only."""

    mean: Tensor
    var: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.linspace(-1, 1, OBS))
        self.register_buffer("var", torch.linspace(0.5, 2, OBS))
        self.register_buffer("count", torch.tensor(1e7))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean = self.mean + 0.1 * (x.mean(0) - self.mean)
        return (x - self.mean) / torch.sqrt(self.var + 1e-8)


@people.case(obs(OBS))
def normaliser_inside() -> nn.Module:
    return nn.Sequential(RunningMeanStd(), mlp(OBS, 32, ACT))


# It learns in deployment too: what persists is asked about.
class Adapting(RunningMeanStd):
    def forward(self, x: Tensor) -> Tensor:
        self.mean = self.mean + 0.1 * (x.mean(0) - self.mean)
        return (x - self.mean) / torch.sqrt(self.var + 1e-8)


@people.case(obs(OBS), refused="RW164")
def normaliser_that_learns() -> nn.Module:
    return nn.Sequential(Adapting(), mlp(OBS, 32, ACT))


@dataclass
class Output:
    action: Tensor
    value: Tensor


class AnsweringDataclass(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.actor, self.critic = mlp(OBS, 32, ACT), mlp(OBS, 32, 1)

    def forward(self, obs: Tensor) -> Output:
        return Output(action=self.actor(obs), value=self.critic(obs).squeeze(-1))


@people.case(obs(OBS))
def answers_a_dataclass() -> nn.Module:
    return AnsweringDataclass()


@dataclass
class Noted(Output):
    note: str = "ppo"


class AnsweringNotes(AnsweringDataclass):
    def forward(self, obs: Tensor) -> Output:
        return Noted(action=self.actor(obs), value=self.critic(obs).squeeze(-1))


# A text is no tensor: the line is named.
@people.case(obs(OBS), refused="RW190")
def answers_with_a_text() -> nn.Module:
    return AnsweringNotes()


class Answer(NamedTuple):
    action: Tensor
    value: Tensor


class AnsweringTuple(AnsweringDataclass):
    def forward(self, obs: Tensor) -> Answer:  # type: ignore[override]
        return Answer(self.actor(obs), self.critic(obs))


@people.case(obs(OBS))
def answers_a_named_tuple() -> nn.Module:
    return AnsweringTuple()


class AnsweringPair(AnsweringDataclass):
    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return self.actor(obs), self.critic(obs)


@people.case(obs(OBS), then=HINT)
def answers_a_pair() -> nn.Module:
    return AnsweringPair()


class AnsweringDistribution(AnsweringDataclass):
    def forward(self, obs: Tensor) -> Any:
        return torch.distributions.Normal(self.actor(obs), 0.1)


@people.case(obs(OBS), method=lambda m, obs: m(obs).mean)
def answers_a_distribution() -> nn.Module:
    return AnsweringDistribution()


class Flagged(AnsweringDataclass):
    def forward(self, obs: Tensor, deterministic: bool = False, mask: Any = None) -> Tensor:  # type: ignore[override]
        mean = self.actor(obs)
        if not deterministic:
            mean = mean + 0.1 * torch.randn_like(mean)
        action: Tensor = mean if mask is None else mean * mask
        return action


@people.case(obs(OBS), constants={"deterministic": True})
def flags_said() -> nn.Module:
    return Flagged()


@people.case({"obs": torch.zeros(1, OBS), "deterministic": True}, then=HINT)
def flags_in_the_example() -> nn.Module:
    return Flagged()


class Keywords(AnsweringDataclass):
    """`*args, **kwargs` handed on to another module."""

    def forward(self, *args: Tensor, **kwargs: Tensor) -> Tensor:  # type: ignore[override]
        action: Tensor = self.actor(*args, **kwargs)
        return action


@people.case(torch.zeros(1, OBS))
def hands_everything_on() -> nn.Module:
    return Keywords()


class Hooked(nn.Module):
    """A forward hook that scales, as people patch what they cannot edit."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBS, 32, ACT)
        self.net.register_forward_hook(lambda module, args, out: 0.5 * out)
        self.net[0].register_forward_pre_hook(lambda module, args: (args[0].clamp(-5, 5),))

    def forward(self, obs: Tensor) -> Tensor:
        action: Tensor = self.net(obs)
        return action


@people.case(obs(OBS))
def hooked() -> nn.Module:
    return Hooked()


class CriticElsewhere(AnsweringDataclass):
    """The critic was never loaded: its weights are on the meta device."""

    def __init__(self) -> None:
        super().__init__()
        self.critic = mlp(OBS, 32, 1).to("meta")

    def forward(self, obs: Tensor) -> Tensor:  # type: ignore[override]
        action: Tensor = self.actor(obs)
        return action


@people.case(obs(OBS))
def critic_never_loaded() -> nn.Module:
    return CriticElsewhere()


class Cached(nn.Module):
    """Keeps what it computed for a log: it is written, and never read."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.last_features, self.calls = mlp(OBS, 32, ACT), None, 0

    def forward(self, obs: Tensor) -> Tensor:
        self.calls += 1
        self.last_features = self.net[:2](obs)
        action: Tensor = self.net[2:](self.last_features)
        return action


@people.case(obs(OBS))
def keeps_a_log() -> nn.Module:
    return Cached()


class Clocked(nn.Module):
    """Reads the clock of the machine: refused, a file has none."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(OBS, 32, ACT)

    def forward(self, obs: Tensor) -> Tensor:
        import time

        action: Tensor = self.net(obs) * (1.0 if time.time() % 2 < 1 else 0.5)
        return action


@people.case(obs(OBS), refused="RW124")
def reads_the_clock() -> nn.Module:
    return Clocked()
