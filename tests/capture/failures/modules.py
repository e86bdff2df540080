"""Modules whose results, weights, dtypes or devices are not those of a graph."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.capture.failures.case import OBS, Case
from tests.capture.failures.values import Actor


class TrainedInDouble(Actor):
    def __init__(self) -> None:
        super().__init__()
        self.double()

    def forward(self, obs: Tensor) -> Tensor:
        return torch.tanh(self.net(obs))


class CommandAsInt(Actor):
    """A gait chosen by a command that arrives as int32."""

    def forward(self, obs: Tensor, gait: Tensor) -> Tensor:
        return self.net(obs) * functional.one_hot(gait, 4)


class CommandAsLong(Actor):
    def forward(self, obs: Tensor, gait: Tensor) -> Tensor:
        return self.net(obs) * functional.one_hot(gait.long(), 4)


class NamesADevice(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        previous = torch.cuda.FloatTensor(4).zero_()
        return self.net(obs) - previous


class FollowsTheInput(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        previous = torch.zeros(4, device=obs.device)
        return self.net(obs) - previous


class ClampsItsWeights(Actor):
    """Keeps itself Lipschitz by writing into its weights at every call."""

    def forward(self, obs: Tensor) -> Tensor:
        self.net.weight.data.clamp_(-0.1, 0.1)
        return self.net(obs)


class ClampsWhileComputing(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        return functional.linear(obs, self.net.weight.clamp(-0.1, 0.1), self.net.bias)


class WritesIntoRows(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        action = self.net.bias.expand(obs.shape[0], 4)
        action += self.net(obs)
        return action


class WritesIntoACopy(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        action = self.net.bias.expand(obs.shape[0], 4).clone()
        action += self.net(obs)
        return action


class Gaussian(Actor):
    def forward(self, obs: Tensor) -> Any:
        return torch.distributions.Normal(self.net(obs), 0.3)


class GaussianMean(Actor):
    def forward(self, obs: Tensor) -> Any:
        return torch.distributions.Normal(self.net(obs), 0.3).mean


class WithANumber(Actor):
    def forward(self, obs: Tensor) -> Any:
        action = self.net(obs)
        return {"actions": action, "norm": float(action.norm())}


class WithATensor(Actor):
    def forward(self, obs: Tensor) -> Any:
        action = self.net(obs)
        return {"actions": action, "norm": action.norm(dim=-1, keepdim=True)}


class Sampled(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        distribution = torch.distributions.Normal(self.net(obs), 0.3)
        return distribution.rsample()


class Packed(nn.Module):
    """A recurrent policy as it was trained: over padded episodes."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.GRU(8, 6, batch_first=True), nn.Linear(6, 4)

    def forward(self, obs: Tensor, length: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(
            obs, length.cpu(), batch_first=True, enforce_sorted=False
        )
        _, hidden = self.rnn(packed)
        return self.head(hidden[0])


class Stepped(Packed):
    def forward(self, obs: Tensor, h: Tensor) -> Any:  # type: ignore[override]
        _, hidden = self.rnn(obs[:, None], h[None])
        return self.head(hidden[0]), hidden[0]


class Nested(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        rows = torch.nested.nested_tensor(list(obs), layout=torch.jagged)
        return self.net(torch.nested.to_padded_tensor(rows[..., None], 0.0)[..., 0])


class Padded(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        mask = torch.ones_like(obs)
        return self.net(obs * mask)


MODULES = {
    "float64": Case(
        before=TrainedInDouble,
        after=TrainedInDouble,
        make_after=lambda: TrainedInDouble().float(),
        line="return torch.tanh(self.net(obs))",
        code="RW116",
        what="the example and the weights have different precision: Float and Double",
        hint="module.float() and a float32 example; or rw.export(…, fix=True)",
    ),
    "int32_index": Case(
        before=CommandAsInt,
        after=CommandAsLong,
        line="return self.net(obs) * functional.one_hot(gait, 4)",
        code="RW116",
        what="an index must be int64, and has another dtype",
        hint="index.long() where it is used; or rw.export(…, fix=True)",
        described={"example": OBS | {"gait": torch.tensor([0, 1], dtype=torch.int32)}},
    ),
    "device": Case(
        before=NamesADevice,
        after=FollowsTheInput,
        line="previous = torch.cuda.FloatTensor(4).zero_()",
        code="RW119",
        what="forward puts a tensor on a device of its own choice, such as cuda, in a way that "
        "cannot be followed on the CPU, where the export runs",
        hint="use the device of the input: torch.zeros(…, device=obs.device)",
    ),
    "writes_weights": Case(
        before=ClampsItsWeights,
        after=ClampsWhileComputing,
        line="self.net.weight.data.clamp_(-0.1, 0.1)",
        code="RW118",
        what="forward changes a tensor through .data, which a captured graph cannot follow",
        hint="do it once, before the export; or compute the new weight without storing it: "
        "F.linear(x, self.net.weight.clamp(-1, 1), self.net.bias); state that is memory: "
        "self.steps = self.steps + 1",
    ),
    "writes_view": Case(
        before=WritesIntoRows,
        after=WritesIntoACopy,
        line="action += self.net(obs)",
        code="RW102",
        what="forward writes into a tensor whose rows share their memory (made by expand)",
        hint="write into a copy: x.expand(…).clone(), or add without writing: x = x + y",
    ),
    "distribution": Case(
        before=Gaussian,
        after=GaussianMean,
        line="return torch.distributions.Normal(self.net(obs), 0.3)",
        code="RW190",
        what="forward returns a Normal, expected tensors",
        hint="return a tensor of it, such as distribution.mean",
    ),
    "number": Case(
        before=WithANumber,
        after=WithATensor,
        line='return {"actions": action, "norm": float(action.norm())}',
        code="RW190",
        what="forward returns a float, expected tensors",
        hint="return a tensor with one row for each row of the input, or do not return it",
    ),
    "rsample": Case(
        before=Sampled,
        after=GaussianMean,
        line="return distribution.rsample()",
        code="RW111",
        what="the outputs are random: the same inputs gave different values",
        hint="return the mean or the mode of the distribution instead of a sample",
    ),
    "packed": Case(
        before=Packed,
        after=Stepped,
        line="_, hidden = self.rnn(packed)",
        code="RW192",
        what="a packed sequence has a length for each row; a graph has one shape for all",
        hint="step the policy: pass one frame and the hidden state, forward(obs, h) with "
        "memory={'h': zeros}; or pad, and choose the last step with gather",
        described={"example": {"obs": torch.ones(2, 5, 8), "length": torch.tensor([5, 3])}},
        described_after={"memory": {"h": torch.zeros(2, 6)}},
    ),
    "nested": Case(
        before=Nested,
        after=Padded,
        line="rows = torch.nested.nested_tensor(list(obs), layout=torch.jagged)",
        code="RW192",
        what="a nested tensor has a length for each row; a graph has one shape for all",
        hint="use a padded tensor and a mask: x * mask[..., None]",
    ),
}
