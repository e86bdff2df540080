"""Memory and buffers on a device: values come in by DLPack, and memory never leaves it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from roadworthy.errors import PortMismatch, need
from roadworthy.runtime import feeds
from roadworthy.runtime.device_frame import Graph, StagedFrame
from roadworthy.runtime.device_tensors import TensorFrame
from roadworthy.spec.port import BATCH, Array, Memory, Port
from roadworthy.spec.signature import Signature

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

    def frame(
        self, dims: Mapping[str, int], *, unbatched: bool, staged: bool
    ) -> StagedFrame | TensorFrame:
        return (StagedFrame if staged else TensorFrame)(self, dims, unbatched=unbatched)

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
