"""Key rules: which keys a transform reads, writes, removes and primes, and the stage it becomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from roadworthy.errors import ExportError
from roadworthy.frameworks.torchrl.keys import NestedKey
from roadworthy.frameworks.torchrl.stage import TransformStage

# What a `TransformStage` computes with, and the values at which its memory starts.
Computation = tuple[nn.Module, Mapping[str, Tensor]]
Function = Callable[..., Any]


class Apply(nn.Module):
    """`function(*inputs, *constants)` as a module: a tuple of tensors comes back."""

    def __init__(self, function: Function, *constants: Tensor) -> None:
        super().__init__()
        self.function = function
        self.count = len(constants)
        for index, constant in enumerate(constants):
            self.register_buffer(f"constant_{index}", constant.detach().clone())

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        constants = [getattr(self, f"constant_{index}") for index in range(self.count)]
        result = self.function(*inputs, *constants)
        return result if isinstance(result, tuple) else (result,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyRule:
    """What a transform does to some keys.

    reads        the keys that it needs
    writes       the keys that it gives
    computation  how, asked for only where the policy needs what is written
    removes      whether a key is gone afterwards
    primed       the value of the written key at a reset; after that the policy changes it itself
    """

    reads: tuple[NestedKey, ...] = ()
    writes: tuple[NestedKey, ...] = ()
    computation: Callable[[], Computation] | None = None
    removes: Callable[[NestedKey], bool] = lambda key: False
    primed: Callable[[], Tensor] | None = None

    def stage(self, name: str) -> TransformStage:
        """The stage that does this, under the name of the transform."""
        assert self.computation is not None, "only what writes a key becomes a stage"
        module, initial = self.computation()
        return TransformStage(
            module.eval(), name=name, in_keys=self.reads, out_keys=self.writes, initial=initial
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlacedTransform:
    """A private copy of a transform, and where in the environment it stands.

    `batch_dims` counts the leading axes of the environment's own tensors that are its batch.
    """

    transform: Any
    where: str
    batch_size: tuple[int, ...]
    in_environment: bool

    @property
    def batch_dims(self) -> int:
        return len(self.batch_size)

    @property
    def name(self) -> str:
        return type(self.transform).__name__

    def refused(self, what: str, *, hint: str, code: str = "RW150") -> ExportError:
        """The error that says what this transform does and what to do about it."""
        return ExportError(f"{self.name} {what}", code=code, where=self.where, hint=hint)

    def require_environment(self, takes: str, *, otherwise: str = "") -> None:
        """An error where the transform finds something in an environment, and there is none."""
        if not self.in_environment:
            raise self.refused(
                f"{takes}, and there is none",
                code="RW151",
                hint="pass the environment" + (f", or {otherwise}" if otherwise else ""),
            )

    def row(self, value: Tensor) -> Tensor:
        """The part of a constant that holds for one row of the batch."""
        value = value.detach().cpu()
        count = self.batch_dims
        if not count:
            return value
        if value.ndim <= count or tuple(value.shape[:count]) != self.batch_size:
            # Axes of size 1 in front meet the batch, or nothing.
            while value.ndim and value.shape[0] == 1:
                value = value[0]
            return value
        rows = value.reshape(-1, *value.shape[count:])
        if not torch.equal(rows, rows[:1].expand_as(rows)):
            raise self.refused(
                f"holds other values for each of {len(rows)} environments",
                hint="share them: reduce_batch_dims=True, or one environment without a batch",
            )
        return rows[0]

    def dim(self, dim: int) -> int:
        """A `dim` that TorchRL counts behind the batch, as one that says so by its sign."""
        if dim >= 0 and not self.in_environment:
            raise self.refused(
                f"counts its dim {dim} from the front, and no environment says where a row starts",
                hint="use a negative dim, or pass the environment",
            )
        return dim

    def axis(self, tensor: Tensor, dim: int, *, added: int = 0) -> int:
        """The axis of a batch-first tensor at `dim` of a row that gains `added` axes."""
        axis = dim + 1 if dim >= 0 else tensor.ndim + added + dim
        if not 1 <= axis < tensor.ndim + added:
            raise self.refused(
                f"works on dim {dim} of a row of shape {tuple(tensor.shape[1:])}",
                hint="check the order of the transforms",
            )
        return axis

    def forward_rules(
        self, function: Callable[[], Function], constants: Callable[[], Iterable[Tensor]] = tuple
    ) -> Iterator[KeyRule]:
        """A rule for each pair of in_keys and out_keys, in their order."""
        yield from self._rules(self.transform.in_keys, self.transform.out_keys, function, constants)

    def inverse_rules(
        self, function: Callable[[], Function], constants: Callable[[], Iterable[Tensor]] = tuple
    ) -> Iterator[KeyRule]:
        """A rule for each pair in the other direction: reads out_keys_inv, writes in_keys_inv."""
        transform = self.transform
        yield from self._rules(
            transform.out_keys_inv or (), transform.in_keys_inv or (), function, constants
        )

    def rules_by_key(
        self,
        computation: Callable[[NestedKey], Computation],
        in_keys: Iterable[NestedKey] | None = None,
    ) -> Iterator[KeyRule]:
        """A rule for each pair of in_keys and out_keys, computed as the read key says."""
        reads = self.transform.in_keys if in_keys is None else in_keys
        for read, write in zip(reads, self.transform.out_keys, strict=in_keys is None):
            yield KeyRule(reads=(read,), writes=(write,), computation=partial(computation, read))

    def _rules(
        self,
        reads: Iterable[NestedKey],
        writes: Iterable[NestedKey],
        function: Callable[[], Function],
        constants: Callable[[], Iterable[Tensor]],
    ) -> Iterator[KeyRule]:
        def computation() -> Computation:
            return Apply(function(), *constants()), {}

        for read, write in zip(reads, writes, strict=True):
            yield KeyRule(reads=(read,), writes=(write,), computation=computation)


RuleBuilder = Callable[[PlacedTransform], Iterator[KeyRule]]


def aligned(rows: Tensor, constant: Tensor) -> Tensor:
    """`rows` with axes behind the batch, so that a constant of more axes meets a row only."""
    while rows.ndim - 1 < constant.ndim:
        rows = rows.unsqueeze(1)
    return rows
