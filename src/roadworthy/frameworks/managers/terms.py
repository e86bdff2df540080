"""The parts of a manager-based environment as plain data: terms, groups, candidates, rings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from roadworthy.spec.port import About

Tensors = dict[str, torch.Tensor]
NOTHING_SAID = About()


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One observation term of a group, as the framework processes it.

    flattened  whether the frames of its history lie side by side
    delay      (fewest, most) steps by which it comes late
    """

    name: str
    shape: tuple[int, ...]
    scale: float | tuple[float, ...] | None = None
    clip: tuple[float, float] | None = None
    history: int = 0
    flattened: bool = True
    delay: tuple[int, int] = (0, 0)
    noise: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTerms:
    """One observation group: its terms in order, and what happens to them together.

    shape       of its observations, without the environments: a row of numbers, or an image
    nan_policy  what is done about NaN: "disabled", or a way that depends on the values
    """

    name: str
    shape: tuple[int, ...]
    terms: tuple[Term, ...]
    concatenated: bool = True
    corrupted: bool = False
    nan_policy: str = "disabled"


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A tensor of the environment that may become a port, if the step reads it.

    `table` says that it may as well be a table of numbers that nobody ever changes: such a one is
    a constant of the file, and no port.
    """

    name: str
    read: Callable[[], torch.Tensor]
    about: About = NOTHING_SAID
    table: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Ring:
    """A ring buffer of frames; `frames` is (envs, length, …), oldest first, whatever its pointer.

    It is rotated when it is written: then its pointer is always at the end. `pushes` counts the
    frames of each environment since its reset, up to the length.
    """

    name: str
    owner: Any

    def frames(self) -> torch.Tensor:
        found: torch.Tensor = self.owner.buffer
        return found

    def set_frames(self, value: torch.Tensor) -> None:
        self.owner._buffer = value.transpose(0, 1).contiguous()
        self.owner._pointer = self.owner.max_length - 1
        # Newer ones of IsaacLab fill all frames at the first push only behind this flag: a graph
        # has to ask the count of pushes at every step.
        if hasattr(self.owner, "_need_reset"):
            self.owner._need_reset = True

    def pushes(self) -> torch.Tensor:
        # Beyond its length the count changes nothing: so it never overflows.
        pushes: torch.Tensor = self.owner.current_length.to(torch.int32)
        return pushes

    def set_pushes(self, value: torch.Tensor) -> None:
        self.owner._num_pushes = value.to(torch.int64)


def of_groups(env: Any, groups: Sequence[str]) -> Iterator[Ring]:
    """The history and the delays of observation groups."""
    manager = env.observation_manager
    for group in groups:
        delays = getattr(manager, "_group_obs_term_delay_buffer", {}).get(group, {})
        for term, delay in delays.items():
            yield Ring(f"delay.{group}.{term}", delay._buffer)
        for term, history in manager._group_obs_term_history_buffer[group].items():
            yield Ring(f"history.{group}.{term}", history)
