"""Other circumstances: the registered tensors far from where a quiet simulation leaves them.

A branch that no run enters (a ray that misses, a selector that is off) hides what is read in it.
Sign flips, zeros, ones and large values of the inputs enter most of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import torch

from roadworthy.environment.numbers import write
from roadworthy.environment.source import EnvironmentSource
from roadworthy.errors import UsageError

# Beyond what sensors say, and not so far that everything overflows.
LARGE = 1e3
MIXED = 6

# A tensor and the place of its port among the ports → other values for it.
Circumstance = Callable[[torch.Tensor, int], torch.Tensor]


def put(
    source: EnvironmentSource, circumstance: Circumstance, spared: Sequence[torch.Tensor]
) -> bool:
    """Changes every registered tensor but those that one of `spared` is part of.

    Whether it could be done: a tensor that cannot be written to is for others to report.
    """
    own = {each.untyped_storage().data_ptr() for each in spared}
    try:
        for index, (name, read) in enumerate(source.ports.items()):
            value = read()
            if value.untyped_storage().data_ptr() not in own:
                write(name, read, circumstance(value, index))
    except (UsageError, RuntimeError, ValueError):
        return False
    return True


def _flipped(value: torch.Tensor, _: int) -> torch.Tensor:
    if value.dtype == torch.bool:
        return ~value
    return -value if value.is_floating_point() else value.clone()


def _filled(number: float) -> Circumstance:
    def filled(value: torch.Tensor, _: int) -> torch.Tensor:
        # Whole numbers are indices and selectors: small ones, or an index leaves its table.
        if value.dtype == torch.bool or value.is_floating_point() or 0 <= number <= 2:
            return torch.full_like(value, number)
        return value.clone()

    return filled


_PLAIN: tuple[Circumstance, ...] = (
    _flipped, *(_filled(number) for number in (0.0, 1.0, 2.0, LARGE, -LARGE)),
)  # fmt: skip


def _mixed(seed: int) -> Circumstance:
    """Another choice of the plain ones for each port."""

    def mixed(value: torch.Tensor, index: int) -> torch.Tensor:
        return random.Random(f"{seed} {index}").choice(_PLAIN)(value, index)

    return mixed


CIRCUMSTANCES: tuple[Circumstance, ...] = (*_PLAIN, *(_mixed(seed) for seed in range(MIXED)))
