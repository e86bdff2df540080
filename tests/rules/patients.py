"""Policies that are wrong in ways that exports elsewhere do not notice."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tests.networks import Mlp, RunningNorm


class ActorCritic(nn.Module):
    """Has a normaliser, and forgets it."""

    def __init__(self) -> None:
        super().__init__()
        self.actor, self.critic = Mlp(), Mlp(6, 1)
        self.obs_normalizer: nn.Module = RunningNorm(6)

    def forward(self, obs: Tensor) -> Tensor:
        return self.actor(obs)


class Normalised(ActorCritic):
    def forward(self, obs: Tensor) -> Tensor:
        return self.actor(self.obs_normalizer(obs))


class FlatStatistics(nn.Module):
    """Statistics as buffers of the policy itself."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Mlp()
        self.register_buffer("obs_mean", torch.ones(6))
        self.register_buffer("obs_std", torch.full((6,), 3.0))

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs)


class Learning(RunningNorm):
    def forward(self, obs: Tensor) -> Tensor:
        self.count += obs.shape[0]
        self.mean += (obs.mean(dim=0) - self.mean) / self.count
        return (obs - self.mean) / self.std


class StillLearning(Normalised):
    def __init__(self) -> None:
        super().__init__()
        self.obs_normalizer = Learning(6)


class RunningMeanStd:
    def __init__(self) -> None:
        self.mean, self.var, self.count = np.full(6, 0.5), np.full(6, 2.0), 1e4


class Runner:
    """No module itself: it holds the policy, and statistics of two kinds beside it."""

    def __init__(self) -> None:
        self.policy = Mlp()
        self.obs_rms, self.ret_rms = RunningMeanStd(), RunningMeanStd()


class FourMistakes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6, 6)
        self.calls = 0

    def forward(self, obs: Tensor) -> Tensor:
        self.calls += 1
        x = self.net(nn.functional.dropout(obs, 0.5))
        if x.mean() > 0:
            x = x * float(x.max())
        return x * self.calls


class EveryThousandth(nn.Module):
    """State that no comparison of a few hundred steps can see."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6, 6)
        self.calls = 0

    def forward(self, obs: Tensor) -> Tensor:
        self.calls += 1
        return self.net(obs) * (2 if self.calls % 1000 == 0 else 1)


class Unsquashed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Linear(6, 2)
        self.squash_output = True

    def forward(self, obs: Tensor) -> Tensor:
        return self.mean(obs)


class TargetActs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.actor, self.actor_target = Mlp(), Mlp()

    def forward(self, obs: Tensor) -> Tensor:
        return self.actor_target(obs)


class Gathers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6, 6)

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs)[obs > 0].reshape(-1, 1)


class Innocent(nn.Module):
    """Everything that reads like a mistake and is none."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6, 6)
        self.dropout = nn.Dropout(0.1)
        self.register_buffer("scale", torch.tensor(2.0))
        self.features: Tensor | None = None
        self.seen = 0

    def forward(
        self,
        obs: Any,
        mask: Tensor | None = None,
        deterministic: bool = True,
    ) -> Tensor:
        if self.training and self.seen < 10:
            self.seen += 1
            obs = obs + torch.randn_like(obs)
        if obs.ndim == 1 or obs.shape[0] == 0 or len(obs) < 0:
            obs = obs.unsqueeze(0)
        if mask is not None and isinstance(mask, Tensor):
            obs = obs * mask
        self.features = self.net(obs)
        if obs.is_nested or any(each.requires_grad for each in (obs, self.features)):
            obs = obs.detach()
        parts = [self.net(each) for each in (obs, self.dropout(obs))]
        x = parts[0] * float(self.scale) * int(obs.shape[-1])
        named = {"a": x, "b": obs}
        for name, value in named.items():
            if name == "b":
                x = x + value
        if not deterministic:
            return x
        assert x.dtype.is_floating_point
        return self._half(x, times=2)

    def _half(self, x: Tensor, times: int) -> Tensor:
        for _ in range(times):
            if times > 1:
                x = x * 0.5
        return x


class SetUpOtherwise(nn.Module):
    """Code for training, for another distribution and for another head, none of which runs."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.head = nn.Linear(6, 4), UnusedHead()
        self.distribution: torch.distributions.Normal | None = None
        self.kind = "mean"

    def update(self, mean: torch.Tensor) -> None:
        if self.distribution is None:
            self.distribution = torch.distributions.Normal(mean, 1.0)

    def forward(self, obs: torch.Tensor, stochastic: bool = False) -> torch.Tensor:
        mean: torch.Tensor = self.net(obs)
        if stochastic:
            self.update(mean)
            return torch.distributions.Normal(mean, 1.0).sample()
        if self.kind == "mean":
            if mean.sum() > 0:
                mean = mean * float(mean.max())
            return mean.tanh()
        elif self.kind == "one_hot":  # noqa: RET505
            return torch.distributions.OneHotCategorical(logits=mean).sample()
        return torch.from_numpy(mean.numpy())


class UnusedHead(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.multinomial(1)
