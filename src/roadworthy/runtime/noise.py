"""Noise that the runtime draws: one stream for each row, whatever the batch is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.errors import UsageError
from roadworthy.spec.port import Array
from roadworthy.spec.samples import noise
from roadworthy.spec.signature import Signature


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoiseState:
    """Where the streams stand: the seed, and the generator of each row that has drawn."""

    seed: int
    streams: tuple[Mapping[str, Any], ...]


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

    def state(self) -> NoiseState | None:
        """Where the streams stand; None where nothing is drawn."""
        if self.seed is None or not self.ports:
            return None
        streams = tuple(stream.bit_generator.state for stream in self._streams)
        return NoiseState(seed=self.seed, streams=streams)

    def restore(self, state: NoiseState | None) -> None:
        """Goes on from where the streams stood."""
        if state is None:
            return
        self.seed = state.seed
        # Rows beyond those that had drawn begin their streams when they are asked to.
        self._streams = [_stream(state.seed, row) for row in range(len(state.streams))]
        for stream, stood in zip(self._streams, state.streams, strict=True):
            stream.bit_generator.state = dict(stood)

    def added(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs and, for the noise ports that they leave out, fresh draws."""
        absent = [port for port in self.ports if port.name not in inputs]
        if not absent:
            return dict(inputs)
        rows, batched = self._rows(inputs)
        for row in range(len(self._streams), rows):
            self._streams.append(_stream(self.seed, row))
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


def _stream(seed: int | None, row: int) -> np.random.Generator:
    """The stream of a row, from its beginning."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(row,))))
