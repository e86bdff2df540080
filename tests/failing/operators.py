"""Operators that ONNX or onnxruntime does not have, and sizes that a graph would fix."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.failing.case import Case
from tests.failing.values import Actor


class Whitened(nn.Module):
    """Targets through the inverse of a task-space inertia."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(8, 3)
        self.inertia = nn.Parameter(torch.tensor([[2.0, 0.1, 0], [0.1, 3, 0], [0, 0, 4]]))

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs) @ torch.linalg.inv(self.inertia)


class WhitenedOnce(Whitened):
    inverse: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("inverse", torch.linalg.inv(self.inertia.detach()))

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs) @ self.inverse


class MedianOfHeads(nn.Module):
    """An ensemble whose middle vote is the action."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.Linear(8, 4 * 5)

    def forward(self, obs: Tensor) -> Tensor:
        votes = self.heads(obs).unflatten(-1, (4, 5))
        return votes.median(dim=-1).values


class SortedHeads(MedianOfHeads):
    def forward(self, obs: Tensor) -> Tensor:
        votes = self.heads(obs).unflatten(-1, (4, 5))
        return torch.topk(votes, 3, largest=False).values[..., -1]


class BinsSearched(Actor):
    """Actions rounded to the steps of a valve."""

    edges: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("edges", torch.linspace(-1, 1, 11))

    def forward(self, obs: Tensor) -> Tensor:
        return torch.searchsorted(self.edges, self.net(obs)).float()


class BinsBucketized(BinsSearched):
    def forward(self, obs: Tensor) -> Tensor:
        return torch.bucketize(self.net(obs), self.edges).float()


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


class DoubleElu(nn.Module):
    """A policy that was trained in float64, with the ELU of legged robots."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(8, 16).double(), nn.Linear(16, 4).double()

    def forward(self, obs: Tensor) -> Tensor:
        return self.outer(functional.elu(self.inner(obs)))


class ShortIndex(Actor):
    """A discrete policy whose scores are counted in int16."""

    def forward(self, obs: Tensor) -> Tensor:
        votes = (self.net(obs) > 0).to(torch.int16)
        return votes.argmax(dim=-1)


class LongIndex(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        votes = (self.net(obs) > 0).long()
        return votes.argmax(dim=-1)


class Distances(Actor):
    """Actions by the distance to learnt prototypes."""

    def __init__(self) -> None:
        super().__init__()
        self.prototypes = nn.Parameter(torch.eye(4, 8))

    def forward(self, obs: Tensor) -> Tensor:
        return torch.cdist(obs, self.prototypes)


class DistancesOneWay(Distances):
    def forward(self, obs: Tensor) -> Tensor:
        return torch.linalg.vector_norm(obs[:, None] - self.prototypes, dim=-1)


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
        after=WhitenedOnce,
        line="return self.net(obs) @ torch.linalg.inv(self.inertia)",
        code="RW105",
        what="ONNX has no operator for torch's linalg_inv_ex",
        hint="write out the closed form of a 2×2 or 3×3 matrix (adjugate / determinant); where "
        "its input never changes, compute it once in __init__ and keep a buffer; or "
        "rw.export(…, translations={torch.ops.aten.linalg_inv_ex.default: …})",
    ),
    "median": Case(
        before=MedianOfHeads,
        after=SortedHeads,
        line="return votes.median(dim=-1).values",
        code="RW105",
        what="ONNX has no operator for torch's median",
        hint="torch.topk(x, k, largest=False).values[..., -1:] with k = (n + 1) // 2; or "
        "rw.export(…, translations={torch.ops.aten.median.dim: …})",
    ),
    "searchsorted": Case(
        before=BinsSearched,
        after=BinsBucketized,
        line="return torch.searchsorted(self.edges, self.net(obs)).float()",
        code="RW105",
        what="ONNX has no operator for torch's searchsorted",
        hint="torch.bucketize(x, edges) for edges that are the same in every row; or "
        "rw.export(…, translations={torch.ops.aten.searchsorted.Tensor: …})",
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
        before=DoubleElu,
        after=DoubleElu,
        make_after=lambda: DoubleElu().float(),
        line="return self.outer(functional.elu(self.inner(obs)))",
        code="RW106",
        what="onnxruntime cannot run Elu in float64",
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
    "cdist": Case(
        before=Distances,
        after=DistancesOneWay,
        line="return torch.cdist(obs, self.prototypes)",
        code="RW101",
        what="torch.cdist chooses its method by the number of rows: "
        "2 <= L['tensors'][0].size()[0] and L['tensors'][0].size()[0] <= 25",
        hint="write torch.linalg.vector_norm(a[:, None] - b, dim=-1) instead of torch.cdist(a, b)",
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
