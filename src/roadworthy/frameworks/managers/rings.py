"""Ring buffers as memory in the order of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from roadworthy.frameworks.managers.dialect import Ring


@dataclass(frozen=True, slots=True, eq=False)
class CircularBuffer:
    """IsaacLab's and mjlab's, rotated when it is written: then its pointer is always at the end."""

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
            yield CircularBuffer(f"delay.{group}.{term}", delay._buffer)
        for term, history in manager._group_obs_term_history_buffer[group].items():
            yield CircularBuffer(f"history.{group}.{term}", history)
