"""The distributions that torch.export cannot enter, as plain formulas with the same numbers."""

from __future__ import annotations

import math
from typing import Any, Protocol

import torch
from torch import Tensor
from torchrl.modules import TanhDelta, TruncatedNormal

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
        shape = torch.broadcast_tensors(self.loc, self.scale)[0]
        share = torch.empty_like(shape).uniform_(EPS, 1 - EPS)
        quantile = (self._below + share * self._inside).clamp(EPS, 1 - EPS)
        value = SQRT_2 * erfinv(2 * quantile - 1) * self.scale + self.loc
        return torch.minimum(torch.maximum(value, self.low), self.high)


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
        self.mode = squashed * ((high - low) / 2) + (high + low) / 2

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
    return (-(x**2) * 0.5).exp() * INV_SQRT_2PI


def _cumulative(x: Tensor) -> Tensor:
    return (0.5 * (1 + (x * INV_SQRT_2).erf())).clamp(EPS, 1 - EPS)


# Wichura's AS 241 (1988), PPND7: the normal quantile as two rational functions, near the middle
# in 0.180625 - q² and in the tails in √(-log p) - 1.6. Lowest power first.
_MIDDLE = (
    (3.3871327179, 50.434271938, 159.29113202, 59.109374720),
    (1.0, 17.895169469, 78.757757664, 67.187563600),
)
_TAIL = (
    (1.4234372777, 2.7568153900, 1.3067284816, 0.17023821103),
    (1.0, 0.73700164250, 0.12021132975),
)


def erfinv(y: Tensor) -> Tensor:
    """The inverse of `erf`, which ONNX lacks, to within 1e-6 in float32."""
    q = y / 2
    middle = q * _ratio(_MIDDLE, 0.180625 - q * q)
    # 1 - |y| is exact where it matters: close to 1.
    depth = torch.sqrt(-torch.log((1 - y.abs()) / 2))
    tail = torch.sign(y) * _ratio(_TAIL, depth - 1.6)
    return torch.where(q.abs() <= 0.425, middle, tail) / SQRT_2


def _ratio(coefficients: tuple[tuple[float, ...], tuple[float, ...]], x: Tensor) -> Tensor:
    above, below = (_polynomial(each, x) for each in coefficients)
    return above / below


def _polynomial(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    value = torch.full_like(x, coefficients[-1])
    for each in reversed(coefficients[:-1]):
        value = value * x + each
    return value
