"""Operators that ONNX or onnxruntime does not have, and sizes that a graph would fix."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.capture.failures.case import Case
from tests.capture.failures.values import Actor


class Whitened(Actor):
    """Targets through the inverse of an inertia that depends on the pose."""

    def forward(self, obs: Tensor) -> Tensor:
        inertia = torch.diag_embed(2 + self.net(obs)[:, :2].tanh()) + 0.5
        return (torch.linalg.inv(inertia) @ obs[:, :2, None])[..., 0]


class WhitenedByHand(Whitened):
    def forward(self, obs: Tensor) -> Tensor:
        inertia = torch.diag_embed(2 + self.net(obs)[:, :2].tanh()) + 0.5
        (a, b), (c, d) = (row.unbind(-1) for row in inertia.unbind(-2))
        adjugate = torch.stack([torch.stack([d, -b], -1), torch.stack([-c, a], -1)], -2)
        return (adjugate / (a * d - b * c)[:, None, None] @ obs[:, :2, None])[..., 0]


class BareSqueeze(Actor):
    """A value head that drops whatever axis has one element."""

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs.unsqueeze(1)).squeeze()


class NamedSqueeze(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs.unsqueeze(1)).squeeze(1)


class DistinctRows(Actor):
    """Only rows that differ are returned."""

    def forward(self, obs: Tensor) -> Tensor:
        return torch.unique(self.net(obs), dim=0)


class TaskFromObservation(Actor):
    """The first element of the observation is the number of the task."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks = nn.Embedding(4, 4)

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs) + self.tasks(obs[:, 0].long())


class TaskInside(TaskFromObservation):
    def forward(self, obs: Tensor) -> Tensor:
        task = obs[:, 0].long().clamp(0, self.tasks.num_embeddings - 1)
        return self.net(obs) + self.tasks(task)


@functools.cache
def soft_clip() -> Any:
    """`failing::soft_clip`, an operator of the user's own (registered once)."""

    @torch.library.custom_op("failing::soft_clip", mutates_args=())
    def operator(x: Tensor, limit: float) -> Tensor:
        return limit * torch.tanh(x / limit)

    operator.register_fake(lambda x, limit: torch.empty_like(x))
    return torch.ops.failing.soft_clip.default


class CustomOperator(Actor):
    def __init__(self) -> None:
        super().__init__()
        soft_clip()

    def forward(self, obs: Tensor) -> Tensor:
        return torch.ops.failing.soft_clip(self.net(obs), 2.0)


class Shapeless(Actor):
    """A custom operator that never said what shape it returns."""

    def __init__(self) -> None:
        super().__init__()
        _shapeless()

    def forward(self, obs: Tensor) -> Tensor:
        return torch.ops.failing.shapeless(self.net(obs))


@functools.cache
def _shapeless() -> Any:
    return torch.library.custom_op("failing::shapeless", lambda x: x.tanh(), mutates_args=(),
                                   schema="(Tensor x) -> Tensor")  # fmt: skip


class Shaped(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        return torch.tanh(self.net(obs))


class DoubleGelu(nn.Module):
    """A policy that was trained in float64, with the ELU of legged robots."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(8, 16).double(), nn.Linear(16, 4).double()

    def forward(self, obs: Tensor) -> Tensor:
        return self.outer(functional.gelu(self.inner(obs)))


class ShortIndex(Actor):
    """A discrete policy whose scores are counted in int16."""

    def forward(self, obs: Tensor) -> Tensor:
        votes = (self.net(obs) > 0).to(torch.int16)
        return votes.argmax(dim=-1)


class LongIndex(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        votes = (self.net(obs) > 0).long()
        return votes.argmax(dim=-1)


class BatchOfOne(Actor):
    """Written for one robot: the batch is flattened away."""

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs.view(1, -1)).view(1, 2, 2)


class AnyBatch(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs).view(obs.shape[0], 2, 2)


class RowByRow(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        return torch.stack([self.net(row) for row in obs])


_READ_SIZES = (
    "write obs.shape[0] in place of constants such as view(3, -1) or zeros(3, …), or export "
    "for one batch size: rw.export(…, batch=1)"
)

OPERATORS = {
    "linalg": Case(
        before=Whitened,
        after=WhitenedByHand,
        line="return (torch.linalg.inv(inertia) @ obs[:, :2, None])[..., 0]",
        code="RW105",
        what="ONNX has no operator for torch's linalg_inv_ex",
        hint="write out the closed form of a 2×2 or 3×3 matrix (adjugate / determinant); where "
        "its input never changes, compute it once in __init__ and keep a buffer; or "
        "rw.export(…, translations={torch.ops.aten.linalg_inv_ex.default: …})",
    ),
    "squeeze": Case(
        before=BareSqueeze,
        after=NamedSqueeze,
        line="return self.net(obs.unsqueeze(1)).squeeze()",
        code="RW101",
        what="squeeze drops the batch axis too when there is one row: the action of one robot has "
        "other axes than those of several",
        hint="say which axis to drop: squeeze(1)",
    ),
    "distinct_rows": Case(
        before=DistinctRows,
        after=Actor,
        line="return torch.unique(self.net(obs), dim=0)",
        code="RW173",
        what="how many elements come out depends on the values of a tensor",
        hint="keep the shape: torch.where(mask, x, 0.0), or multiply by the mask",
    ),
    "index": Case(
        before=TaskFromObservation,
        after=TaskInside,
        line="return self.net(obs) + self.tasks(obs[:, 0].long())",
        code="RW102",
        what="an index that comes from the inputs lies outside of the table: on the robot this "
        "would be a crash",
        hint="keep it inside where it is used: index.clamp(0, table.num_embeddings - 1); where the "
        "whole input is the index, its limits do too: about={'obs': rw.About(low=0, high=…)}",
        described={"example": {"obs": torch.arange(16.0).reshape(2, 8) % 3}},
    ),
    "no_shape": Case(
        before=Shapeless,
        after=Shaped,
        line="return torch.ops.failing.shapeless(self.net(obs))",
        code="RW191",
        what="the custom operator failing::shapeless does not say what shape it returns",
        hint="beside its definition: @op.register_fake, "
        "a function that returns torch.empty_like(x)",
    ),
    "float64_kernel": Case(
        before=DoubleGelu,
        after=DoubleGelu,
        make_after=lambda: DoubleGelu().float(),
        line="return self.outer(functional.gelu(self.inner(obs)))",
        code="RW106",
        what="onnxruntime cannot run Erf in float64",
        hint="work in float32: module.float() and a float32 example, or x.float() at that line",
        described={"example": {"obs": torch.zeros(2, 8, dtype=torch.float64)}},
        described_after={},
    ),
    "int16_kernel": Case(
        before=ShortIndex,
        after=LongIndex,
        line="return votes.argmax(dim=-1)",
        code="RW106",
        what="onnxruntime cannot run ArgMax in int16",
        hint="work in int64 at that line: x.long()",
    ),
    "batch_of_one": Case(
        before=BatchOfOne,
        after=AnyBatch,
        line="return self.net(obs.view(1, -1)).view(1, 2, 2)",
        code="RW101",
        what="forward runs on the example, but with 3 rows it raised RuntimeError: "
        "mat1 and mat2 shapes cannot be multiplied (1x24 and 8x4)",
        hint=f"the first axis of the example must be the batch; {_READ_SIZES}",
        described={"example": {"obs": torch.linspace(-1, 1, 8)[None]}},
    ),
    "row_by_row": Case(
        before=RowByRow,
        after=Actor,
        line="return torch.stack([self.net(row) for row in obs])",
        code="RW101",
        what="a Python loop goes over the rows of a tensor: the graph would hold one copy of "
        "the loop for each row of the example",
        hint="drop the loop: layers and operators take all rows at once, self.net(obs)",
    ),
}
