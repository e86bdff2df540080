"""The delays of mjlab's actuators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from roadworthy.frameworks.managers.dialect import Ring
from roadworthy.frameworks.managers.rings import CircularBuffer


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
