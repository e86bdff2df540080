"""Python numbers as ports: a step counter or the place in a ring buffer is state like any other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from roadworthy.environment.assigned import Assigned
from roadworthy.environment.components import GetTensor, as_tensor
from roadworthy.environment.paths import Place, find
from roadworthy.errors import UsageError


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A number of the environment: read as a tensor without axes, written where it lies."""

    place: Place
    roots: Mapping[str, object]

    def __call__(self) -> torch.Tensor:
        return as_tensor(self.place.get(self.roots))

    def write(self, value: torch.Tensor) -> None:
        kind = type(self.place.get(self.roots))
        self.place.put(self.roots, kind(value.item()))

    def write_traced(self, value: torch.Tensor) -> None:
        """Put a tensor in the place of the number: what is computed with it enters the graph."""
        self.place.put(self.roots, value.clone())


# Ports that are written by a method of their own, and not through the tensor that they return.
WRITTEN = (Number, Assigned)


def located(name: str, read: Any, roots: Mapping[str, object]) -> Number:
    """The number that a callback returns: the place at which another value changes its answer."""
    value = read()
    places, _ = find(roots)
    for place in places.values():
        held = place.get(roots)
        if type(held) is not type(value) or held != value:
            continue
        try:
            place.put(roots, _other(value))
        except (TypeError, AttributeError):  # inside a tuple, or read-only
            continue
        try:
            answer = read()
        finally:
            place.put(roots, held)
        if answer == _other(value):
            return Number(place, roots)
    raise UsageError(
        f"the callback returns the number {value!r}, and no attribute holds that number",
        code="RW120",
        where=name,
        hint="return the attribute itself, without arithmetic",
    )


def write(name: str, read: GetTensor, value: torch.Tensor) -> None:
    """Write a value where the environment reads it, and make sure that it got there."""
    if isinstance(read, WRITTEN):
        read.write(value)
    else:
        read().copy_(value)
    if not torch.equal(read().cpu(), value.cpu()):
        raise UsageError(
            "the callback returns a copy: what is written into it never reaches the environment",
            code="RW120",
            where=name,
            hint="return the stored tensor itself or a view of it, without clone() or arithmetic",
        )


def _other(value: Any) -> Any:
    return type(value)(not value) if isinstance(value, (bool, np.bool_)) else type(value)(value + 1)
