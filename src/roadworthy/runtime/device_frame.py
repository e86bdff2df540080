"""One step on a device over buffers that stay there, recorded once and launched as one thing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from roadworthy.errors import BundleError
from roadworthy.runtime import feeds
from roadworthy.runtime.cuda_graph import Recording, Work, recorded
from roadworthy.runtime.frame import seen
from roadworthy.spec.port import BATCH, Array, Memory, Port
from roadworthy.spec.signature import Signature

# Tensors in, tensors out, both in the order of the signature.
Graph = Callable[[Sequence[Any]], Sequence[Any]]


class Room(Protocol):
    """What a frame needs of the memory that it steps."""

    torch: Any
    graphs: Sequence[Graph]
    signature: Signature
    device: Any
    where: str
    rows: int
    ticks: Array
    decimation: int
    current: dict[str, Any]

    def nan_in(self, tensors: Mapping[str, Any], kind: str = "") -> str: ...


class Launch:
    """A recorded step: what runs it, and its outputs as the caller sees them, by name."""

    __slots__ = ("outputs", "replays", "run")

    def __init__(self, recording: Recording, outputs: Mapping[str, Any]) -> None:
        self.run, self.replays = recording.run, recording.replays
        self.outputs = dict(outputs)


class DeviceFrame:
    """The buffers for one set of sizes on a device, and what launches a step over them.

    A policy of two rates has two launches: that of its decisions, and that of the ticks between.
    """

    def __init__(self, room: Room, dims: Mapping[str, int], *, unbatched: bool) -> None:
        self.room, self._dims, self.unbatched = room, dict(dims), unbatched
        with room.torch.inference_mode(False):
            self.held = [self.empty(port, room.device) for port in room.signature.inputs]
        # Each is recorded at its first step.
        self._launches: list[Launch | None] = [None for _ in room.graphs]

    @property
    def between(self) -> bool:
        return bool(self.room.ticks) if self.room.decimation > 1 else False

    def launched(self) -> Launch:
        """Runs the step over the buffers."""
        between = self.between
        launch = self._launches[between]
        if launch is None:
            launch = self._launches[between] = self.record(between, self.held)
        launch.run()
        self.count()
        return launch

    def count(self) -> None:
        """One tick has passed."""
        if self.room.decimation > 1:
            self.room.ticks[...] = (self.room.ticks + 1) % self.room.decimation

    def record(self, between: bool, inputs: Sequence[Any]) -> Launch:
        """Makes what runs a step that reads these tensors, which hold its inputs already."""
        work = Work(
            begin=self.bring, compute=lambda: self._computed(between, inputs), commit=self._commit
        )
        recording = recorded(work, self.room.device, where=self.room.where)
        ports = self.room.signature.outputs
        shown = zip(ports, self.shown(recording.results), strict=False)
        return Launch(recording, {p.name: seen(p, each, self.unbatched) for p, each in shown})

    def bring(self) -> None:
        """Brings inputs to the device, as a part of the step."""

    def fetch(self, results: Sequence[Any]) -> None:
        """Brings outputs to the host, as a part of the step."""

    def shown(self, results: Sequence[Any]) -> Sequence[Any]:
        """The results where the caller reads them."""
        return results

    def _computed(self, between: bool, inputs: Sequence[Any]) -> Sequence[Any]:
        """The outputs and the memory of the next step; none shares its storage with a buffer."""
        room = self.room
        held = [*inputs, *room.current.values()]
        try:
            got = room.graphs[between](held)
        except Exception as error:  # operators raise what they like
            if "captur" in str(error):  # what no graph can hold
                raise
            raise BundleError(
                f"PyTorch cannot run the graph on {room.device}: {error}",
                where=room.where,
                hint=f"rw.verify(FOLDER, device={str(room.device)!r}, trust=True) tests it here",
            ) from error
        self._refuse_misfits(got)
        # Memory is written while outputs that are views of it wait to be read.
        shared = {tensor.untyped_storage().data_ptr() for tensor in held}
        return [
            tensor.clone() if tensor.untyped_storage().data_ptr() in shared else tensor
            for tensor in got
        ]

    def _commit(self, results: Sequence[Any]) -> None:
        self.fetch(results)
        memory = list(self.room.current.values())
        if memory:
            for buffer, result in zip(memory, results[-len(memory) :], strict=True):
                buffer.copy_(result)

    def _refuse_misfits(self, got: Sequence[Any]) -> None:
        """An error for a result that `copy_` would broadcast or cast."""
        signature, rows = self.room.signature, self.room.rows
        expected = [
            *((p.name, p.dtype, p.sizes(self._dims)) for p in signature.outputs),
            *((m.output, m.dtype, _sizes(m, rows)) for m in signature.memory),
        ]
        for (name, dtype, shape), value in zip(expected, got, strict=True):
            if tuple(value.shape) != shape or str(value.dtype) != f"torch.{dtype}":
                raise BundleError(
                    f"expected {dtype} {shape}, got {value.dtype} {tuple(value.shape)}",
                    where=name,
                    hint="the file does not match its signature: export it again",
                )

    def empty(self, port: Port, device: Any) -> Any:
        torch = self.room.torch
        return torch.zeros(port.sizes(self._dims), dtype=getattr(torch, port.dtype), device=device)


class StagedFrame(DeviceFrame):
    """Values come from NumPy and go back there.

    They pass through memory that the device reads and writes by itself; the copies are part of what
    is launched.
    """

    def __init__(self, room: Room, dims: Mapping[str, int], *, unbatched: bool) -> None:
        super().__init__(room, dims, unbatched=unbatched)
        signature = room.signature
        with room.torch.inference_mode(False):
            self._sent = [self._pinned(port) for port in signature.inputs]
            self._fetched = [self._pinned(port) for port in signature.outputs]
        self._slots = tuple(
            (port.name, seen(port, tensor, unbatched).numpy())
            for port, tensor in zip(signature.inputs, self._sent, strict=True)
        )
        self._waits = room.device.type == "cuda"

    def step(self, inputs: Any) -> dict[str, Any] | None:
        """The outputs; None where the inputs are not exactly what the buffers hold."""
        if type(inputs) is not dict or len(inputs) != len(self._slots):
            return None
        for name, buffer in self._slots:
            value = inputs.get(name)
            if value is buffer:
                continue
            if (
                type(value) is not np.ndarray
                or value.dtype is not buffer.dtype
                or value.shape != buffer.shape
            ):
                return None
            buffer[...] = value
        return self.run()

    def fill(self, values: Mapping[str, Any]) -> None:
        for name, buffer in self._slots:
            buffer[...] = values[name]

    def inputs(self) -> dict[str, Any]:
        return dict(self._slots)

    def first_nan(self) -> str:
        return feeds.first_nan(self.inputs())

    def run(self) -> dict[str, Any]:
        launch = self.launched()
        if self._waits:
            self.room.torch.cuda.current_stream(self.room.device).synchronize()
        return {name: view.numpy().copy() for name, view in launch.outputs.items()}

    def bring(self) -> None:
        for buffer, value in zip(self.held, self._sent, strict=True):
            buffer.copy_(value, non_blocking=True)

    def fetch(self, results: Sequence[Any]) -> None:
        for buffer, result in zip(self._fetched, results, strict=False):
            buffer.copy_(result, non_blocking=True)

    def shown(self, results: Sequence[Any]) -> Sequence[Any]:
        return self._fetched

    def _pinned(self, port: Port) -> Any:
        tensor = self.empty(port, "cpu")
        return tensor.pin_memory() if self.room.device.type == "cuda" else tensor


def _sizes(memory: Memory, rows: int) -> tuple[int, ...]:
    return tuple(rows if dim == BATCH else int(dim) for dim in memory.shape)
