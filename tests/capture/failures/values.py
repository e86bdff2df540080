"""Values that leave the graph: Python decides, counts, or copies what only a tensor knows."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tests.capture.failures.case import Case


class TwoGaits(nn.Module):
    """A slow and a fast gait, chosen by the commanded speed."""

    def __init__(self) -> None:
        super().__init__()
        self.slow, self.fast = nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, obs: Tensor) -> Tensor:
        if (obs[:, 0] > 0.5).all():
            return self.fast(obs)
        return self.slow(obs)


class TwoGaitsChosen(TwoGaits):
    def forward(self, obs: Tensor) -> Tensor:
        return torch.where(obs[:, :1] > 0.5, self.fast(obs), self.slow(obs))


class ResetInside(nn.Module):
    """A recurrent policy that clears the rows that begin an episode (TorchRL's GRU does)."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(8, 6), nn.Linear(6, 4)

    def forward(self, obs: Tensor, is_init: Tensor, h: Tensor) -> Any:
        if is_init.any():
            h = torch.where(is_init, torch.zeros_like(h), h)
        h = self.cell(obs, h)
        return self.head(h), h


class ResetByRow(ResetInside):
    def forward(self, obs: Tensor, is_init: Tensor, h: Tensor) -> Any:
        h = torch.where(is_init, torch.zeros_like(h), h)
        h = self.cell(obs, h)
        return self.head(h), h


class Actor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(8, 4)

    def forward(self, obs: Tensor) -> Any:
        return self.net(obs)


class ScaledByItem(Actor):
    """Actions divided by the largest bias, as a number."""

    def forward(self, obs: Tensor) -> Tensor:
        largest = self.net.bias.abs().max().item()
        return self.net(obs) / max(largest, 1.0)


class ScaledByTensor(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs) / self.net.bias.abs().max().clamp(min=1.0)


class PhaseByMath(Actor):
    """A gait clock through Python's math."""

    def forward(self, obs: Tensor) -> Tensor:
        phase = obs[0, -1]
        return self.net(obs) * math.sin(phase)


class PhaseByTorch(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs) * torch.sin(obs[:, -1:])


class GainsAsList(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        gains = obs[:, 0].tolist()
        return torch.stack([self.net(o) * g for o, g in zip(obs, gains, strict=True)])


class GainsAsTensor(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        gains = obs[:, 0]
        return self.net(obs) * gains[:, None]


class ClippedInNumpy(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        action = np.clip(self.net(obs).detach().cpu().numpy(), -1, 1)
        return torch.from_numpy(action)


class ClippedInTorch(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        return torch.clip(self.net(obs), -1, 1)


class ShrunkUntilSmall(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        x = self.net(obs)
        while x.abs().max() > 1.0:
            x = x * 0.5
        return x


class ShrunkTenTimes(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        x = self.net(obs)
        for _ in range(10):
            x = torch.where(x.abs().amax(-1, keepdim=True) > 1.0, x * 0.5, x)
        return x


class AssertsFinite(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        action = self.net(obs)
        assert not torch.isnan(action).any(), "the policy diverged"
        return action


class AssertsInTraining(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        action = self.net(obs)
        if self.training:
            assert not torch.isnan(action).any(), "the policy diverged"
        return action


class PhaseRebuilt(Actor):
    """A gait clock put together with torch.tensor."""

    def forward(self, obs: Tensor) -> Tensor:
        left, right = torch.sin(obs[0, 0]), torch.cos(obs[0, 0])
        clock = torch.tensor([left, right, 1.0, 1.0])
        return self.net(obs) * clock


class PhaseStacked(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        left, right = torch.sin(obs[:, 0]), torch.cos(obs[:, 0])
        one = torch.full_like(left, 1.0)
        return self.net(obs) * torch.stack([left, right, one, one], dim=-1)


class HiddenCopied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(8, 4)
        self.hidden = torch.zeros(2, 4)

    def forward(self, obs: Tensor) -> Tensor:
        before = copy.deepcopy(self.hidden)
        self.hidden = torch.tanh(self.net(obs) + before)
        return self.hidden - before


class HiddenCloned(HiddenCopied):
    def forward(self, obs: Tensor) -> Tensor:
        before = self.hidden.clone()
        self.hidden = torch.tanh(self.net(obs) + before)
        return self.hidden - before


class TensorFlag(Actor):
    """A normaliser whose flag is a buffer (TorchRL's ObservationNorm does that)."""

    standard_normal: Tensor
    loc: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("standard_normal", torch.tensor(True))
        self.register_buffer("loc", torch.linspace(-1, 1, 8))

    def forward(self, obs: Tensor) -> Tensor:
        if self.standard_normal:
            obs = obs - self.loc
        return self.net(obs)


class PythonFlag(Actor):
    loc: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.standard_normal = True
        self.register_buffer("loc", torch.linspace(-1, 1, 8))

    def forward(self, obs: Tensor) -> Tensor:
        if self.standard_normal:
            obs = obs - self.loc
        return self.net(obs)


_BRANCHES = "the code branches on the value of a tensor; a graph would freeze one side"
_NUMBER = "the value of a tensor is read as a Python number; a graph would freeze it"
_LEAVES = "the code leaves PyTorch for NumPy; a graph would freeze what comes back"

VALUES = {
    "branch": Case(
        before=TwoGaits,
        after=TwoGaitsChosen,
        line="if (obs[:, 0] > 0.5).all():",
        code="RW103",
        what=_BRANCHES,
        hint="compute both sides and choose: torch.where(condition, a, b)",
    ),
    "is_init": Case(
        before=ResetInside,
        after=ResetByRow,
        line="if is_init.any():",
        code="RW103",
        what=_BRANCHES,
        hint="choose row by row, without the if: x = torch.where(is_init, a, b), "
        "which changes nothing where is_init is False",
        described={
            "example": {
                "obs": torch.linspace(-1, 1, 16).reshape(2, 8),
                "is_init": torch.zeros(2, 1, dtype=torch.bool),
            },
            "memory": {"h": torch.zeros(2, 6)},
        },
    ),
    "item": Case(
        before=ScaledByItem,
        after=ScaledByTensor,
        line="return self.net(obs) / max(largest, 1.0)",
        code="RW103",
        what=_NUMBER,
        hint="write x.clamp(min=1.0) instead of max(x.item(), 1.0)",
    ),
    "math": Case(
        before=PhaseByMath,
        after=PhaseByTorch,
        line="return self.net(obs) * math.sin(phase)",
        code="RW103",
        what=_NUMBER,
        hint="use torch.sin instead of math.sin: it takes and returns tensors",
    ),
    "tolist": Case(
        before=GainsAsList,
        after=GainsAsTensor,
        line="gains = obs[:, 0].tolist()",
        code="RW103",
        what="the values of a tensor are read as a Python list; a graph would freeze them",
        hint="drop .tolist() and work on all rows at once: self.net(obs) * gains[:, None] "
        "instead of [self.net(o) * g for o, g in zip(obs, gains)]",
    ),
    "numpy": Case(
        before=ClippedInNumpy,
        after=ClippedInTorch,
        line="action = np.clip(self.net(obs).detach().cpu().numpy(), -1, 1)",
        code="RW103",
        what=_LEAVES,
        hint="use torch.clip instead of np.clip, without .numpy() or from_numpy()",
    ),
    "while": Case(
        before=ShrunkUntilSmall,
        after=ShrunkTenTimes,
        line="while x.abs().max() > 1.0:",
        code="RW103",
        what="a loop runs until the value of a tensor says stop; "
        "a graph would freeze the number of rounds",
        hint="loop a fixed number of times and leave finished rows as they are: for _ in "
        "range(n): x = torch.where(condition, update(x), x)",
    ),
    "assert": Case(
        before=AssertsFinite,
        after=AssertsInTraining,
        line='assert not torch.isnan(action).any(), "the policy diverged"',
        code="RW103",
        what="an assertion reads the value of a tensor; a graph cannot stop half-way",
        hint="delete it, or check in training only: if self.training: assert …",
    ),
    "tensor_of_tensors": Case(
        before=PhaseRebuilt,
        after=PhaseStacked,
        line="clock = torch.tensor([left, right, 1.0, 1.0])",
        code="RW117",
        what="a new tensor is made from computed values; the graph would hold the numbers of "
        "the example",
        hint="write torch.stack([a, b], dim=-1) instead of torch.tensor([a, b]); numbers go in "
        "as torch.full_like(a, 1.0)",
    ),
    "deepcopy": Case(
        before=HiddenCopied,
        after=HiddenCloned,
        line="before = copy.deepcopy(self.hidden)",
        code="RW103",
        what="a tensor that is being traced cannot be deep-copied",
        hint="write x.clone() instead of copy.deepcopy(x)",
        described={"memory": {"h": "hidden"}},
    ),
    "tensor_flag": Case(
        before=TensorFlag,
        after=PythonFlag,
        line="if self.standard_normal:",
        code="RW103",
        what="self.standard_normal is a tensor and decides a branch; a graph would freeze one side",
        hint="if it never changes, make it a Python bool after loading: self.standard_normal = "
        "bool(self.standard_normal); or rw.export(…, fix=True)",
    ),
}
