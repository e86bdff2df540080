"""Ports that are no tensor of the environment: read by one callback, written by another.

A ring buffer is state in the order of its pointer; a port of it should be in the order of time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from roadworthy.environment.components import GetTensor
from roadworthy.environment.paths import Place


@dataclass(frozen=True, slots=True, eq=False)
class Assigned:
    """A value of the environment, and how another one is put in its place.

    `owners` are the objects that hold it in their own form: whatever of them moves is this value.
    """

    read: GetTensor
    assign: Callable[[torch.Tensor], None]
    owners: tuple[object, ...] = ()

    def __call__(self) -> torch.Tensor:
        return self.read()

    def write(self, value: torch.Tensor) -> None:
        self.assign(value.clone())

    def write_traced(self, value: torch.Tensor) -> None:
        """Put a traced tensor there: what is computed with it enters the graph."""
        self.assign(value.clone())


def is_held_by_port(
    place: Place, roots: Mapping[str, object], ports: Mapping[str, GetTensor]
) -> bool:
    """Whether a place is the inside of something that a port reads and writes as a whole."""
    owners = [o for read in ports.values() if isinstance(read, Assigned) for o in read.owners]
    if not owners or not place.keys:
        return False
    holder = Place(place.path, place.keys[:-1]).get(roots)
    return any(holder is each or holder is getattr(each, "__dict__", None) for each in owners)
