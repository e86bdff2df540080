"""The corners at which operators are compared: where a lowering breaks, if it breaks."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_TURNS = [math.pi, math.pi / 2, 2 * math.pi, 3 * math.pi, 1e5, 12345.678]
_EXPONENTS = [87.0, 89.0, 90.0, 100.0, 104.0, 500.0]
_SIZES = [1e-45, 1e-40, 1.1754944e-38, 1e-30, 1e-10, 1e-4, 1e4, 1e10, 1e30, 3.4028235e38]
_PLAIN = [0.0, 0.1, 0.3, 0.5, 0.7, 0.999, 1.0, 1.5, 2.0, 2.5, 3.5, 7.0, 20.5, math.inf]

POSITIVE = [*_PLAIN, *_TURNS, *_EXPONENTS, *_SIZES]
FLOATS = [*POSITIVE, *(-each for each in POSITIVE), math.nan]
# Every pair of these is tried: the full list would be 5,000 pairs.
PAIRED = [
    *(sign * each for each in
      (0.0, 0.7, 1.0, 2.5, 3.5, math.pi, 100.0, 1e5, 1e-40, 1e-30, 1e30, math.inf)
      for sign in (1.0, -1.0)),
    0.1, 500.0, -500.0, 3.4028235e38, math.nan,
]  # fmt: skip
INTEGERS = [0, 1, -1, 2, -2, 3, -3, 7, -7, 100, -100, 2**31 - 1, -(2**31), 2**62, -(2**62)]
EXTREMES = [2**63 - 1, -(2**63)]
WIDTH = 5


def floats() -> Tensor:
    """Every corner and some ordinary values, (values,)."""
    drawn = torch.randn(64, generator=_generator()) * 3
    return torch.cat([torch.tensor(FLOATS), drawn])


def pairs() -> tuple[Tensor, Tensor]:
    """Every pair of corners."""
    grid = torch.cartesian_prod(torch.tensor(PAIRED), torch.tensor(PAIRED))
    return grid[:, 0].contiguous(), grid[:, 1].contiguous()


def integers() -> tuple[Tensor, Tensor]:
    """Pairs of integers of which the second is not 0, for PyTorch refuses to divide by it."""
    grid = torch.cartesian_prod(torch.tensor(INTEGERS + EXTREMES), torch.tensor(INTEGERS[1:]))
    # The one quotient that int64 does not hold: C says nothing of it.
    held = ~((grid[:, 0] == EXTREMES[1]) & (grid[:, 1] == -1))
    return grid[held, 0].contiguous(), grid[held, 1].contiguous()


def rows() -> Tensor:
    """Rows of ordinary values, ties, zeros of both signs, infinities, NaN and extreme sizes."""
    inf, nan = math.inf, math.nan
    special = [
        [0.0] * 5, [-0.0] * 5, [0.0, -0.0, 0.0, -0.0, 0.0], [1.0] * 5, [2.0, 2.0, 1.0, 2.0, 1.0],
        [-1.0, -1.0, -2.0, -2.0, -1.0], [0.0, 1.0, 0.0, 0.0, 0.0], [1.0, 2.0, 3.0, 4.0, 5.0],
        [nan] * 5, [1.0, nan, 2.0, 0.0, -1.0], [nan, 1.0, 2.0, nan, 3.0], [1.0, 2.0, 0.5, 0.0, nan],
        [inf] * 5, [-inf] * 5, [inf, 1.0, 2.0, -3.0, 0.0], [-inf, 1.0, 2.0, -3.0, 0.0],
        [-inf, -inf, 1.0, 2.0, -inf], [inf, -inf, 0.0, 1.0, 2.0], [1.0, 0.0, 2.0, -inf, inf],
        [1e-40, -1e-40, 1e-45, 0.0, 2e-40], [1e30, 1.0, -1e30, 2.0, 3.0], [1e30] * 5, [3e38] * 5,
        [1e-30, 2e-30, -1e-30, 0.0, 3e-30], [1e-20, 2e-20, -1e-20, 3e-20, 0.0],
        [1e20, 2e20, -1e20, 3e20, 0.0], [90.0, 100.0, -100.0, 0.0, 500.0],
        [-90.0, -100.0, -104.0, -500.0, -1e5], [1000.0, 999.0, 1001.0, 1000.0, 998.0],
        [1e4, 1e4 + 1, 1e4 + 2, 1e4 - 1, 1e4], [0.5, 1.5, 2.5, -0.5, -1.5],
        [math.pi, -math.pi, 1e5, -1e5, 3 * math.pi], [1e-3, 1.0, 1e3, -1e-3, -1e3],
    ]  # fmt: skip
    drawn = torch.randn(24, WIDTH, generator=_generator()) * 2
    return torch.cat([torch.tensor(special), drawn])


def masks(count: int) -> Tensor:
    """For every row of `count` a mask that is empty, one that is full and a drawn one."""
    empty = torch.zeros(count, WIDTH, dtype=torch.bool)
    drawn = torch.rand(count, WIDTH, generator=_generator()) > 0.5
    return torch.cat([empty, ~empty, drawn])


def indices(count: int) -> Tensor:
    """Rows of places in a row, its ends and repetitions among them, (count, 3)."""
    drawn = torch.randint(0, WIDTH, (count, 3), generator=_generator())
    special = torch.tensor([[0, 0, 0], [4, 4, 4], [0, 4, 0], [4, 3, 2]])
    return torch.cat([special, drawn])[:count]


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
