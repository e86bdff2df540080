"""Buffers that stay where they are, so that a step costs the graph and little more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from roadworthy.runtime import feeds
from roadworthy.runtime.engine import Engine, TickingEngine, Ticks
from roadworthy.spec.port import BATCH, Array, Memory, Port
from roadworthy.spec.signature import Signature

# Runs a tick, and the memories that it writes: where they are, and where it leaves them.
_Tick = tuple[Callable[[], None], tuple[tuple[Array, Array], ...]]


class MemoryBuffers:
    """Memory for a number of rows, twice: a step reads one side and writes the other."""

    def __init__(self, signature: Signature, engine: Engine, *, rows: int) -> None:
        self.rows = rows
        self.signature, self.engine = signature, engine
        self.memory = signature.memory
        self.sides = tuple({m.name: m.fresh(rows) for m in self.memory} for _ in range(2))
        self.turn = 0
        self.ticks = np.zeros((), dtype=np.int32)
        self.decimation = signature.decimation if signature.clock else 1

    def reset(self, mask: Array | None = None) -> None:
        if mask is None or mask.all():
            self.ticks[...] = 0
        self.forget(self.memory, mask)

    def forget(self, memories: Iterable[Memory], mask: Array | None = None) -> None:
        for memory in memories:
            current, fresh = self.sides[self.turn][memory.name], memory.fresh(self.rows)
            rows = ... if mask is None else memory.rows(mask)
            current[rows] = fresh[rows]

    def write(self, values: Mapping[str, Array], mask: Array | None = None) -> None:
        """Changes the named memories, in every row or in those where `mask` is true.

        In place: engines hold the addresses.
        """
        for memory in self.memory:
            if memory.name in values:
                rows = ... if mask is None else memory.rows(mask)
                self.sides[self.turn][memory.name][rows] = values[memory.name]

    def copies(self) -> dict[str, Array]:
        """What is remembered now, by name."""
        return {name: array.copy() for name, array in self.sides[self.turn].items()}

    def first_nan(self) -> str:
        return feeds.first_nan(self.sides[self.turn], kind="memory ")

    def frame(self, dims: Mapping[str, int], *, unbatched: bool, staged: bool) -> Frame:
        return Frame(self, dims, unbatched=unbatched)

    def staged(self, values: Iterable[Any]) -> bool:
        return False  # values are where the buffers are

    def value(self, port: Port, value: Any, noted: set[str]) -> Array:
        return feeds.cast(port, value, noted)

    def flags(self, mask: Any) -> Array:
        return np.asarray(mask)


class Frame:
    """The buffers for one set of sizes, tied to the engine in both directions of memory."""

    def __init__(self, buffers: MemoryBuffers, dims: Mapping[str, int], *, unbatched: bool) -> None:
        signature, engine = buffers.signature, buffers.engine
        self._buffers = buffers
        inputs = {port.name: _buffer(port, dims) for port in signature.inputs}
        outputs = {port.name: _buffer(port, dims) for port in signature.outputs}
        clock = {signature.clock: buffers.ticks} if signature.clock else {}
        self._runs: tuple[Callable[[], None], ...] = tuple(
            engine.bind(
                inputs | clock | {m.input: buffers.sides[turn][m.name] for m in signature.memory},
                outputs | {m.output: buffers.sides[1 - turn][m.name] for m in signature.memory},
            )
            for turn in (0, 1)
        )
        self._slots = tuple(
            (port.name, view, view.dtype, view.shape, True)
            for port in signature.inputs
            for view in (seen(port, inputs[port.name], unbatched),)
        )
        self._views = {
            port.name: seen(port, outputs[port.name], unbatched) for port in signature.outputs
        }
        self._copies = tuple((name, view.copy) for name, view in self._views.items())

        self._ticks: tuple[_Tick, ...] = ()
        self._tick_copies, self._tick_slots = self._copies, self._slots
        if buffers.decimation > 1 and isinstance(engine, TickingEngine) and engine.ticks:
            self._bind_ticks(engine.ticks, inputs, outputs, unbatched)

    def _bind_ticks(
        self, ticks: Ticks, inputs: dict[str, Array], outputs: dict[str, Array], unbatched: bool
    ) -> None:
        """Ties the ticks between decisions to the same buffers.

        A tick leaves memory on its side: what it does not touch is not copied.
        """
        buffers, between = self._buffers, ticks.between
        memory = buffers.memory
        found = []
        for turn in (0, 1):
            here, there = buffers.sides[turn], buffers.sides[1 - turn]
            given = inputs | {m.input: here[m.name] for m in memory}
            taken = outputs | {m.output: there[m.name] for m in memory}
            run = ticks.engine.bind(
                {name: given[name] for name in between.inputs},
                {inner: taken[port] for port, inner in between.outputs.items()},
            )
            written = [m.name for m in memory if m.output in between.outputs]
            found.append((run, tuple((here[name], there[name]) for name in written)))
        self._ticks = tuple(found)
        self._tick_slots = tuple((*each[:4], each[0] in between.inputs) for each in self._slots)
        same = self._constant(between.constant, outputs)
        self._tick_copies = tuple(
            (port.name, seen(port, same.get(port.name, outputs[port.name]), unbatched).copy)
            for port in buffers.signature.outputs
        )

    def _constant(self, names: Sequence[str], outputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs that every tick gives alike, asked for once."""
        buffers = self._buffers
        if not names:
            return {}
        now = buffers.ticks.copy()
        buffers.ticks[...] = 1
        self._runs[buffers.turn]()  # memory goes to the other side, which the next step writes anew
        buffers.ticks[...] = now
        return {name: outputs[name].copy() for name in names}

    @property
    def step(self) -> Callable[[Any], dict[str, Any] | None]:
        return self._step

    def _step(self, inputs: Any) -> dict[str, Array] | None:
        slots = self._slots
        if type(inputs) is not dict or len(inputs) != len(slots):
            return None
        if self._ticks and self._buffers.ticks:
            slots = self._tick_slots
        for name, buffer, dtype, shape, read in slots:
            value = inputs.get(name)
            if value is buffer:
                continue
            if type(value) is not np.ndarray or value.dtype is not dtype or value.shape != shape:
                return None
            if read:
                buffer[...] = value
        return self.run()

    def fill(self, values: Mapping[str, Array]) -> None:
        for name, buffer, *_ in self._slots:
            buffer[...] = values[name]

    def inputs(self) -> dict[str, Array]:
        return {name: buffer for name, buffer, *_ in self._slots}

    def first_nan(self) -> str:
        return feeds.first_nan(self.inputs())

    def run(self) -> dict[str, Array]:
        buffers = self._buffers
        turn = buffers.turn
        if self._ticks and buffers.ticks:
            return self._tick(turn)
        self._runs[turn]()
        # Only a step that succeeded moves memory on, to the other side. Here and not in a method:
        # the call would be a hundredth of a small step.
        buffers.turn = 1 - turn
        if buffers.decimation > 1:
            buffers.ticks[...] = (buffers.ticks + 1) % buffers.decimation
        results = {}
        for name, copy in self._copies:  # until Python 3.12 a comprehension is a call
            results[name] = copy()
        return results

    def _tick(self, turn: int) -> dict[str, Array]:
        """The outputs of a tick between decisions; memory stays on its side."""
        buffers = self._buffers
        run, written = self._ticks[turn]
        run()
        for here, there in written:
            here[...] = there
        buffers.ticks[...] = (buffers.ticks + 1) % buffers.decimation
        results = {}
        for name, copy in self._tick_copies:
            results[name] = copy()
        return results


def _buffer(port: Port, dims: Mapping[str, int]) -> Array:
    return np.zeros(port.sizes(dims), dtype=port.dtype)


def seen(port: Port, buffer: Any, unbatched: bool) -> Any:
    """The buffer as the caller sees it: without the batch axis where the inputs had none."""
    if not unbatched or port.batch_axis is None:
        return buffer
    shape = tuple(size for dim, size in zip(port.shape, buffer.shape, strict=True) if dim != BATCH)
    return buffer.reshape(shape)
