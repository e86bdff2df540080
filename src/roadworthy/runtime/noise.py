"""Noise that the runtime draws: one stream for each row, whatever the batch is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from roadworthy.errors import UsageError
from roadworthy.spec.port import Array
from roadworthy.spec.samples import noise
from roadworthy.spec.signature import Signature


class NoiseSource:
    """Seeded streams for the noise ports; row i draws the same alone and among others."""

    def __init__(self, signature: Signature, seed: int | None) -> None:
        self.ports = [port for port in signature.inputs if port.about.noise]
        self._observed = signature.observed
        self._fixed_rows = signature.fixed_rows
        self.restart(seed)

    def restart(self, seed: int | None) -> None:
        """Every stream from its beginning; without a seed, from one that nobody had before."""
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
            raise UsageError(f"seed must be a whole number of 0 or more, got {seed!r}")
        if seed is None and self.ports:
            seed = int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]  # of the system
        self.seed = seed
        self._streams: list[np.random.Generator] = []

    def added(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs and, for the noise ports that they leave out, fresh draws."""
        absent = [port for port in self.ports if port.name not in inputs]
        if not absent:
            return dict(inputs)
        rows, batched = self._rows(inputs)
        for row in range(len(self._streams), rows):
            sequence = np.random.SeedSequence(self.seed, spawn_key=(row,))
            self._streams.append(np.random.Generator(np.random.PCG64(sequence)))
        drawn: dict[str, Array] = {}
        for port in absent:
            shape = tuple(dim for dim in port.shape[1:] if isinstance(dim, int))
            each = [noise(port, stream, shape) for stream in self._streams[:rows]]
            drawn[port.name] = np.stack(each) if batched else each[0]
        return {**inputs, **drawn}

    def _rows(self, inputs: Mapping[str, Any]) -> tuple[int, bool]:
        """How many rows the inputs have, and whether they have a batch axis at all."""
        if self._fixed_rows:
            return self._fixed_rows, True
        for port in self._observed:
            axis = port.batch_axis
            if port.name in inputs and axis is not None:
                shape = np.shape(inputs[port.name])
                # A shape that fits neither way is refused later, with its own finding.
                if len(shape) == len(port.shape) and shape[axis]:
                    return shape[axis], True
        return 1, False
