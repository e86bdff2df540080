"""mjlab's ring buffers as memory in the order of time, and which delays are fixed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from roadworthy.adapters.managers.dialect import Ring


@dataclass(frozen=True, slots=True, eq=False)
class CircularBuffer:
    """One of mjlab's, rotated whenever it is written: then its pointer is always at the end."""

    name: str
    owner: Any

    def frames(self) -> torch.Tensor:
        found: torch.Tensor = self.owner.buffer
        return found

    def set_frames(self, value: torch.Tensor) -> None:
        self.owner._buffer = value.transpose(0, 1).contiguous()
        self.owner._pointer = self.owner.max_length - 1

    def pushes(self) -> torch.Tensor:
        # Beyond its length the count changes nothing: so it never overflows.
        return self.owner.current_length.to(torch.int32)

    def set_pushes(self, value: torch.Tensor) -> None:
        self.owner._num_pushes = value.to(torch.int64)


def of_groups(env: Any, groups: Sequence[str]) -> Iterator[Ring]:
    """The history and the delays of observation groups."""
    manager = env.observation_manager
    for group in groups:
        for term, delay in manager._group_obs_term_delay_buffer[group].items():
            yield CircularBuffer(f"delay.{group}.{term}", delay._buffer)
        for term, history in manager._group_obs_term_history_buffer[group].items():
            yield CircularBuffer(f"history.{group}.{term}", history)


def of_actuators(env: Any) -> Iterator[Ring]:
    """The delays between a command and its actuator, each once: fused actuators share one."""
    for name, entity in env.scene.entities.items():
        shared: dict[int, Any] = {}
        for actuator in entity.actuators:
            delay = getattr(actuator, "_delay_buffer", None)
            if delay is not None:
                shared.setdefault(id(delay), delay)
        for number, delay in enumerate(shared.values()):
            yield CircularBuffer(f"delay.{name}.actuators_{number}", delay._buffer)
