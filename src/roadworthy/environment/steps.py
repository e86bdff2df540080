"""The live environment, driven through its registered tensors: the truth to compare with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from roadworthy.capture.devices import whole_float32
from roadworthy.capture.export_mode import uncompiled
from roadworthy.environment.numbers import write
from roadworthy.environment.source import EnvironmentSource, Tensors, results
from roadworthy.environment.stepping import set_evaluation_mode
from roadworthy.inspection.snapshot import preserved
from roadworthy.spec.port import Array


class EnvironmentSteps:
    """Steps the live environment tick by tick; its memory stays where the environment keeps it."""

    def __init__(self, source: EnvironmentSource, initial: Tensors, decimation: int) -> None:
        self._source = source
        self._initial = initial
        self._decimation = decimation
        self._tick = 0
        self.reset()

    def reset(self, mask: Array | None = None) -> None:
        rows = np.ones(self._source.rows, dtype=bool) if mask is None else mask
        with torch.inference_mode():
            for name, read in self._source.memory.items():
                value, index = read().clone(), _rows(rows, self._initial[name])
                value[index] = self._initial[name][index]
                write(name, read, value)
        if rows.all():
            self._tick = 0

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        half = self._source.substep if self._tick else self._source.step
        with torch.inference_mode():
            for name, value in inputs.items():
                write(name, self._source.inputs[name], torch.from_numpy(np.array(value)))
            outputs, _ = results(self._source, half, torch.Tensor.clone)
        self._tick = (self._tick + 1) % self._decimation
        return {name: value.cpu().numpy() for name, value in outputs.items()}

    @property
    def memory(self) -> dict[str, Array]:
        return {n: read().detach().cpu().numpy().copy() for n, read in self._source.memory.items()}


@contextmanager
def environment_steps(
    source: EnvironmentSource, initial: Tensors, decimation: int
) -> Iterator[EnvironmentSteps]:
    """The environment, ready to step; it and its actor come back as they were afterwards."""
    with uncompiled(), preserved(*source.roots.values()), whole_float32():
        set_evaluation_mode(source.env, source.actor)
        source.env.prepare_export()
        yield EnvironmentSteps(source, initial, decimation)


def _rows(mask: Array, value: torch.Tensor) -> Any:
    """The index of the masked rows; an actor's hidden state has them on its second axis."""
    if mask.all():
        return ...
    count = len(mask)
    axis = next(axis for axis, size in enumerate(value.shape) if size == count)
    return (*(slice(None),) * axis, torch.from_numpy(mask))
