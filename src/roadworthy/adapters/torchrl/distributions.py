"""The distributions that torch.export cannot enter, as plain formulas with the same numbers."""

from __future__ import annotations

import math
from typing import Any, Protocol

import torch
from torch import Tensor
from torchrl.modules import TanhDelta, TruncatedNormal

from roadworthy.errors import ExportError

SQRT_2 = math.sqrt(2)
INV_SQRT_2 = 1 / SQRT_2
INV_SQRT_2PI = 1 / math.sqrt(2 * math.pi)
# What TorchRL's truncated normal keeps away from 0 and 1.
EPS = 1e-6


class Formula(Protocol):
    """A distribution as far as an action needs it."""

    @property
    def deterministic_sample(self) -> Tensor: ...

    @property
    def mode(self) -> Tensor: ...

    @property
    def mean(self) -> Tensor: ...

    def rsample(self) -> Tensor: ...


class TruncatedNormalFormula:
    """TorchRL's `TruncatedNormal`, whose constructor reads tensors as Python numbers."""

    def __init__(
        self,
        loc: Tensor,
        scale: Tensor,
        upscale: Any = 5.0,
        low: Any = -1.0,
        high: Any = 1.0,
        tanh_loc: bool = False,
    ) -> None:
        if tanh_loc:
            loc = (loc / upscale).tanh() * upscale
        self.loc, self.scale = loc, scale.clamp_min(EPS)
        self.low, self.high = (torch.as_tensor(each, dtype=loc.dtype) for each in (low, high))
        a, b = (self.low - self.loc) / self.scale, (self.high - self.loc) / self.scale
        self._little = _density(a), _density(b)
        self._below = _cumulative(a)
        self._inside = (_cumulative(b) - self._below).clamp(EPS, 1 - EPS)

    @property
    def mean(self) -> Tensor:
        little_a, little_b = self._little
        return -(little_b - little_a) / self._inside * self.scale + self.loc

    @property
    def deterministic_sample(self) -> Tensor:
        return self.mean

    @property
    def mode(self) -> Tensor:
        return torch.maximum(torch.minimum(self.loc, self.high - EPS), self.low + EPS)

    def rsample(self) -> Tensor:
        raise ExportError(
            "a drawn TruncatedNormal cannot be exported: where a bound lies beyond three "
            "deviations, TorchRL's float32 inverse turns a last bit into a thousandth",
            code="RW143",
            where="exploration='random'",
            hint="export exploration='deterministic' or 'mode', or train with TanhNormal",
        )


class TanhDeltaFormula:
    """TorchRL's `TanhDelta`, whose constructor refuses to be compiled."""

    def __init__(
        self,
        param: Tensor,
        low: Any = -1.0,
        high: Any = 1.0,
        event_dims: int = 1,
        atol: float = 1e-6,
        rtol: float = 1e-6,
        safe: bool = True,
    ) -> None:
        low, high = (torch.as_tensor(each, dtype=param.dtype) for each in (low, high))
        squashed = (param + (high - low) / 2 + low).tanh()
        if safe:
            limit = 1.0 - torch.finfo(param.dtype).resolution
            squashed = squashed.clamp(-limit, limit)
        self.mode: Tensor = squashed * ((high - low) / 2) + (high + low) / 2

    @property
    def deterministic_sample(self) -> Tensor:
        return self.mode

    @property
    def mean(self) -> Tensor:
        raise AttributeError("TanhDelta has no mean in closed form")

    def rsample(self) -> Tensor:
        return self.mode


FORMULAS: dict[Any, type[Formula]] = {
    TruncatedNormal: TruncatedNormalFormula,
    TanhDelta: TanhDeltaFormula,
}


def _density(x: Tensor) -> Tensor:
    density: Tensor = (-(x**2) * 0.5).exp() * INV_SQRT_2PI
    return density


def _cumulative(x: Tensor) -> Tensor:
    below: Tensor = (0.5 * (1 + (x * INV_SQRT_2).erf())).clamp(EPS, 1 - EPS)
    return below
