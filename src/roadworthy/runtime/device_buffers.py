"""Memory and buffers on a device: values come in by DLPack, and memory never leaves it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from roadworthy.errors import BundleError, PortMismatch, need
from roadworthy.runtime import feeds
from roadworthy.runtime.cuda_graph import Recording, Work, recorded
from roadworthy.runtime.frame import seen
from roadworthy.spec.port import BATCH, Array, Memory, Port
from roadworthy.spec.signature import Signature

# Tensors in, tensors out, both in the order of the signature.
Graph = Callable[[Sequence[Any]], Sequence[Any]]
# Of so many times that a policy asks for NaN, those are answered that look at inputs and memory.
LOOK_AT = 32
# What DLPack calls memory that the host reads: its own, and that pinned for CUDA.
_HOST = (1, 3)


class DeviceBuffers:
    """Memory for a number of rows on a device; a step writes it in place."""

    def __init__(
        self, graphs: Sequence[Graph], signature: Signature, *, device: Any, where: str, rows: int
    ) -> None:
        torch: Any = need("torch", extra="export")
        self.torch, self.graphs, self.signature = torch, graphs, signature
        self.device, self.where, self.rows = device, where, rows
        self.ticks = np.zeros((), dtype=np.int32)
        self.decimation = signature.decimation if signature.clock else 1
        self._asked = 0
        with torch.inference_mode(False):
            self._starts = {m.name: self._sent(np.asarray(m.initial, m.dtype)) for m in self.memory}
            self.current = {m.name: self._sent(m.fresh(rows)) for m in self.memory}

    @property
    def memory(self) -> tuple[Memory, ...]:
        return tuple(self.signature.memory)

    def reset(self, mask: Any = None) -> None:
        if isinstance(mask, np.ndarray):
            mask = self._sent(mask)
        elif mask is not None:
            mask = mask.to(self.device)
        if self.decimation > 1 and (mask is None or bool(mask.all())):
            self.ticks[...] = 0
        self.forget(self.memory, mask)

    def forget(self, memories: Iterable[Memory], mask: Any = None) -> None:
        for memory in memories:
            current, start = self.current[memory.name], self._starts[memory.name]
            if mask is None:
                current.copy_(start)
            elif BATCH in memory.shape:
                across = [-1 if dim == BATCH else 1 for dim in memory.shape]
                current.copy_(self.torch.where(mask.view(across), start, current))
            elif bool(mask.all()):  # the number of rows is fixed: all or none
                current.copy_(start)

    def write(self, values: Mapping[str, Array], mask: Array | None = None) -> None:
        """Changes the named memories in place, in every row or in those where `mask` is true."""
        for memory in self.memory:
            if memory.name in values:
                rows = ... if mask is None else memory.rows(mask)
                changed = self.current[memory.name].cpu().numpy()
                changed[rows] = values[memory.name]
                self.current[memory.name].copy_(self._sent(changed))

    def copies(self) -> dict[str, Array]:
        return {name: tensor.cpu().numpy().copy() for name, tensor in self.current.items()}

    def first_nan(self) -> str:
        return self.nan_in(self.current, "memory ")

    def frame(self, dims: Mapping[str, int], *, unbatched: bool, staged: bool) -> DeviceFrame:
        return DeviceFrame(self, dims, unbatched=unbatched, staged=staged)

    def staged(self, values: Iterable[Any]) -> bool:
        return not any(isinstance(value, self.torch.Tensor) for value in values)

    def value(self, port: Port, value: Any, noted: set[str]) -> Any:
        """A tensor of the device where the value is there; an array where the host has it."""
        if not self._is_here(value):
            return feeds.cast(port, value, noted)
        torch = self.torch
        tensor = value if isinstance(value, torch.Tensor) else torch.from_dlpack(value)
        tensor = tensor.detach() if tensor.requires_grad else tensor
        named = str(tensor.dtype).removeprefix("torch.")
        if named == port.dtype:
            return tensor if tensor.device == self.device else tensor.to(self.device)
        try:
            dtype = np.dtype(named)
        except TypeError:
            raise PortMismatch(
                f"expected {port}, got {named} {tuple(tensor.shape)}",
                where=port.name,
                hint=f"pass {port.name}.to(torch.{port.dtype})",
            ) from None
        if feeds.rounds(port, dtype, tuple(tensor.shape)):
            feeds.warn_rounded(port, noted)
        return tensor.to(self.device, getattr(torch, port.dtype))

    def flags(self, mask: Any) -> Any:
        if not self._is_here(mask):
            return np.asarray(mask)
        return mask if isinstance(mask, self.torch.Tensor) else self.torch.from_dlpack(mask)

    def _is_here(self, value: Any) -> bool:
        """Whether the value is a tensor where the engine computes, whoever made it."""
        if isinstance(value, self.torch.Tensor):
            return bool(value.device.type == self.device.type)
        told: Any = getattr(value, "__dlpack_device__", None)
        return told is not None and int(told()[0]) not in _HOST

    def _sent(self, array: Array) -> Any:
        return self.torch.from_numpy(array.copy()).to(self.device)

    def nan_in(self, tensors: Mapping[str, Any], kind: str = "") -> str:
        """Looks on the device: only a tensor with NaN in it comes to the host.

        Looking waits for the device, so most of the asking is let pass.
        """
        self._asked += 1
        if self._asked % LOOK_AT > 2:
            return ""
        if self.device.type == "cuda" and self.torch.cuda.is_current_stream_capturing():
            return ""  # the caller records a graph: nothing has a value
        bad = {
            name: tensor.cpu().numpy()
            for name, tensor in tensors.items()
            if tensor.is_floating_point() and bool(tensor.isnan().any())
        }
        return feeds.first_nan(bad, kind=kind)


class DeviceFrame:
    """The buffers for one set of sizes on a device, and what launches a step over them.

    Where it is `staged`, values come from NumPy and go back there, through memory that the device
    reads and writes by itself; the copies are part of what is launched.
    """

    def __init__(
        self, buffers: DeviceBuffers, dims: Mapping[str, int], *, unbatched: bool, staged: bool
    ) -> None:
        self._buffers, self._dims, self._staged = buffers, dict(dims), staged
        signature, torch, self._device = buffers.signature, buffers.torch, buffers.device
        self._from_numpy, self._tensor = torch.from_numpy, torch.Tensor
        with torch.inference_mode(False):
            self._inputs = [self._empty(port, buffers.device) for port in signature.inputs]
            ports = (signature.inputs, signature.outputs) if staged else ((), ())
            self._sent, self._fetched = ([self._pinned(port) for port in side] for side in ports)
        shown = self._sent if staged else self._inputs
        self._slots = tuple(
            (port.name, view.numpy() if staged else view, view.dtype, np.dtype(port.dtype),
             tuple(view.shape))
            for port, view in (
                (port, seen(port, tensor, unbatched))
                for port, tensor in zip(signature.inputs, shown, strict=True)
            )
        )  # fmt: skip
        self._unbatched = unbatched
        self._own = False
        # The graph of each rate is recorded at its first step.
        self._runs: list[Callable[[], None] | None] = [None for _ in buffers.graphs]
        self._results: list[Sequence[tuple[str, Any, Callable[[], Any]]]] = [
            () for _ in buffers.graphs
        ]

    @property
    def step(self) -> Callable[[Any], dict[str, Any] | None]:
        return self._step

    def _step(self, inputs: Any) -> dict[str, Any] | None:
        return self.run() if type(inputs) is dict and self._loaded(inputs) else None

    def _loaded(self, inputs: Mapping[str, Any]) -> bool:
        """Whether `inputs` are exactly what these buffers hold; if so they are now in them."""
        if len(inputs) != len(self._slots):
            return False
        here, self._own = self._staged, not self._staged
        for name, buffer, dtype, host_dtype, shape in self._slots:
            value: Any = inputs.get(name)
            if value is buffer:
                here = True
                continue
            self._own = False
            kind = type(value)
            if kind is np.ndarray:
                if value.dtype is not host_dtype or value.shape != shape:
                    return False
                if self._staged:
                    buffer[...] = value
                else:
                    buffer.copy_(self._from_numpy(value.copy()))
                continue
            if (
                self._staged
                or kind is not self._tensor
                or value.dtype is not dtype
                or value.shape != shape
                or value.device != self._device
                or value.requires_grad
            ):
                return False
            buffer.copy_(value)
            here = True
        return here

    def fill(self, values: Mapping[str, Any]) -> None:
        self._own = not self._staged
        for name, buffer, *_ in self._slots:
            value = values[name]
            if value is buffer:
                continue
            self._own = False
            if self._staged:
                buffer[...] = value
            elif isinstance(value, np.ndarray):
                buffer.copy_(self._from_numpy(value.copy()))
            else:
                buffer.copy_(value)

    def inputs(self) -> dict[str, Any]:
        return {name: buffer for name, buffer, *_ in self._slots}

    def first_nan(self) -> str:
        if self._staged:
            return feeds.first_nan(self.inputs())
        return self._buffers.nan_in(self.inputs())

    def run(self) -> dict[str, Any]:
        """The outputs: the caller's own, or the buffers themselves where the inputs were those."""
        buffers = self._buffers
        between = bool(buffers.ticks) if buffers.decimation > 1 else False
        run = self._runs[between] or self._record(between)
        run()
        if buffers.decimation > 1:
            buffers.ticks[...] = (buffers.ticks + 1) % buffers.decimation
        if self._own:
            return {name: buffer for name, buffer, _ in self._results[between]}
        if self._staged and self._device.type == "cuda":
            buffers.torch.cuda.current_stream(self._device).synchronize()
        return {name: copy() for name, _, copy in self._results[between]}

    def _record(self, between: bool) -> Callable[[], None]:
        """Makes what runs this rate; the buffers hold the inputs of the step already."""
        buffers = self._buffers
        work = Work(begin=self._begin, compute=lambda: self._computed(between), commit=self._commit)
        recording: Recording = recorded(work, self._device, where=buffers.where)
        shown = self._fetched if self._staged else recording.results
        results = []
        for port, tensor in zip(buffers.signature.outputs, shown, strict=False):
            view = seen(port, tensor, self._unbatched)
            copy = view.numpy().copy if self._staged else view.clone
            results.append((port.name, view, copy))
        self._results[between] = results
        self._runs[between] = recording.run
        return recording.run

    def _begin(self) -> None:
        if self._staged:
            for buffer, value in zip(self._inputs, self._sent, strict=True):
                buffer.copy_(value, non_blocking=True)

    def _computed(self, between: bool) -> Sequence[Any]:
        """The outputs and the memory of the next step; none shares its storage with a buffer."""
        buffers = self._buffers
        held = [*self._inputs, *buffers.current.values()]
        try:
            got = buffers.graphs[between](held)
        except Exception as error:  # operators raise what they like
            if "captur" in str(error):  # what no graph can hold
                raise
            raise BundleError(
                f"PyTorch cannot run the graph on {self._device}: {error}",
                where=buffers.where,
                hint=f"rw.verify(FOLDER, device={str(self._device)!r}, trust=True) tests it here",
            ) from error
        self._refuse_misfits(got)
        # Memory is written while outputs that are views of it wait to be read.
        shared = {tensor.untyped_storage().data_ptr() for tensor in held}
        return [
            tensor.clone() if tensor.untyped_storage().data_ptr() in shared else tensor
            for tensor in got
        ]

    def _commit(self, results: Sequence[Any]) -> None:
        for buffer, result in zip(self._fetched, results, strict=False):
            buffer.copy_(result, non_blocking=True)
        memory = list(self._buffers.current.values())
        if memory:
            for buffer, result in zip(memory, results[-len(memory) :], strict=True):
                buffer.copy_(result)

    def _refuse_misfits(self, got: Sequence[Any]) -> None:
        """An error for a result that `copy_` would broadcast or cast."""
        signature, rows = self._buffers.signature, self._buffers.rows
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

    def _empty(self, port: Port, device: Any) -> Any:
        torch = self._buffers.torch
        return torch.zeros(port.sizes(self._dims), dtype=getattr(torch, port.dtype), device=device)

    def _pinned(self, port: Port) -> Any:
        tensor = self._empty(port, "cpu")
        return tensor.pin_memory() if self._device.type == "cuda" else tensor


def _sizes(memory: Memory, rows: int) -> tuple[int, ...]:
    return tuple(rows if dim == BATCH else int(dim) for dim in memory.shape)
