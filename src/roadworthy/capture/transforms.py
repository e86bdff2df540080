"""The torch form of the tagged normalisers and action steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from roadworthy.errors import UsageError
from roadworthy.spec import transforms as spec


class Normalize(nn.Module):
    """`clip((x - mean) / divisor, ±clip)`; the formulas differ only in the divisor."""

    mean: Tensor
    divisor: Tensor

    def __init__(self, statistics: spec.Normalizer) -> None:
        super().__init__()
        mean = torch.tensor(statistics.mean, dtype=torch.float64)
        if isinstance(statistics, spec.EpsInsideRoot):
            divisor = (torch.tensor(statistics.var, dtype=torch.float64) + statistics.eps).sqrt()
        else:
            divisor = torch.tensor(statistics.std, dtype=torch.float64) + statistics.eps
        self.register_buffer("mean", mean)
        self.register_buffer("divisor", divisor)
        self.clip = statistics.clip

    def forward(self, x: Tensor) -> Tensor:
        if not _fits(self.mean, x):
            raise UsageError(
                f"the statistics have shape {tuple(self.mean.shape)}, the input {tuple(x.shape)}",
                code="RW030",
                where="normalizer",
                hint="pass one mean and one std (or var) for each element of a row",
            )
        scaled = (x - self.mean.to(x.dtype)) / self.divisor.to(x.dtype)
        return scaled if self.clip is None else scaled.clamp(-self.clip, self.clip)


class Step(nn.Module):
    """One action step: `f(action, mask)`, with its constants as buffers."""

    def __init__(self, function: Callable[..., Tensor], **constants: Any) -> None:
        super().__init__()
        self.function = function
        self.names = tuple(constants)
        for name, value in constants.items():
            self.register_buffer(name, torch.tensor(value, dtype=torch.float64))

    def forward(self, action: Tensor, mask: Tensor | None) -> Tensor:
        constants = [getattr(self, name).to(action.dtype) for name in self.names]
        return self.function(action, mask, *constants)


def normalizer(statistics: spec.Normalizer | nn.Module) -> nn.Module:
    """A module that normalises, from statistics or from the user's own module."""
    return statistics if isinstance(statistics, nn.Module) else Normalize(statistics)


def action_step(step: spec.ActionStep) -> Step:
    """The module that does what the tagged step says."""
    match step:
        case spec.Tanh():
            return Step(lambda a, mask: a.tanh())
        case spec.ScaleOffset(scale=scale, offset=offset):
            return Step(_kept(lambda a, s, o: a * s + o), scale=scale, offset=offset)
        case spec.ScaleToBounds(low=low, high=high):
            return Step(
                _kept(lambda a, lo, hi: lo + 0.5 * (a + 1.0) * (hi - lo)), low=low, high=high
            )
        case spec.Clip(low=low, high=high):
            return Step(_kept(lambda a, lo, hi: a.clamp(lo, hi)), low=low, high=high)
        case spec.Argmax(table=table):
            return Step(lambda a, mask: _argmax(_allowed(a, mask), table))
        case spec.MultiDiscrete(sizes=sizes):
            return Step(lambda a, mask: _each_argmax(_allowed(a, mask), sizes))


def _kept(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The elementwise function, refused where its constants would widen the action."""

    def checked(action: Tensor, mask: Tensor | None, *constants: Tensor) -> Tensor:
        for constant in constants:
            if not _fits(constant, action):
                raise _misfit(f"constants of shape {tuple(constant.shape)}", action)
        return function(action, *constants)

    return checked


def _fits(constant: Tensor, value: Tensor) -> bool:
    """Whether the constant goes with each row of the value without widening it."""
    pairs = zip(reversed(constant.shape), reversed(value.shape), strict=False)
    return constant.ndim < value.ndim + (constant.ndim == 0) and all(c in (1, v) for c, v in pairs)


def _misfit(what: str, action: Tensor) -> UsageError:
    return UsageError(
        f"{what} for {action.shape[-1]} action elements",
        code="RW030",
        where="action",
        hint="pass one number for each element, or one for all",
    )


def _argmax(logits: Tensor, table: tuple[str | int, ...]) -> Tensor:
    if table and len(table) != logits.shape[-1]:
        raise _misfit(f"a table of {len(table)} actions", logits)
    return logits.argmax(dim=-1)


def _allowed(logits: Tensor, mask: Tensor | None) -> Tensor:
    return logits if mask is None else logits.masked_fill(~mask, torch.finfo(logits.dtype).min)


def _each_argmax(logits: Tensor, sizes: tuple[int, ...]) -> Tensor:
    if sum(sizes) != logits.shape[-1]:
        raise _misfit(f"groups of {sizes}", logits)
    groups = torch.split(logits, list(sizes), dim=-1)
    return torch.stack([group.argmax(dim=-1) for group in groups], dim=-1)
