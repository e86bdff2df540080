"""The engine c: the policy compiled for this machine, called over buffers that never move.

From `policy.onnx` the C is written anew: the file is data, and the compiler sees nothing that a
stranger wrote. Weights stay out of the text and are handed over, so that a policy of the same shape
with other weights is not compiled again. Files that are `TrustedCode` are compiled as they are.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from roadworthy.errors import BundleError
from roadworthy.runtime import compiler
from roadworthy.runtime.c_frame import CompiledBuffers, stepper
from roadworthy.runtime.canary import refuse_unsafe
from roadworthy.runtime.engine import Artifact, Buffers
from roadworthy.runtime.frame import MemoryBuffers
from roadworthy.runtime.trust import TrustedCode, written
from roadworthy.spec.onnx_graph import Declared, Graph, read
from roadworthy.spec.port import BATCH, Array
from roadworthy.spec.signature import Signature
from roadworthy.targets.c.constants import HANDED
from roadworthy.targets.c.kernels.panels import PANELS, Panels
from roadworthy.targets.c.source import code

LINE = 64
# So many bytes of weights and values are read before another thread has had a turn and handed back.
SHORT = 2**15


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """What there is to compile, and the constants that its calls hand over."""

    text: TrustedCode
    constants: tuple[Array, ...]


class PolicyText:
    """The C of an artifact for any sizes: as it was shipped, or written anew from its ONNX file.

    Which of them is said by the type of its files, which trust alone decides, and not by names.
    """

    def __init__(self, artifact: Artifact, *, panels: Panels = PANELS) -> None:
        self._panels = panels
        self._signature: Signature = artifact.signature
        self._shipped: Written | None = None
        if isinstance(artifact.files, TrustedCode):
            self._shipped = Written(artifact.files.without_folders("policy.c", "policy.h"), ())
        else:
            refuse_unsafe(artifact.main, where=artifact.where, canary=artifact.canary)
        self._graph: Graph | None = None if self._shipped else read(artifact.main)

    @property
    def is_for_every_size(self) -> bool:
        """Whether one text is all there is: rows are the only size that may vary."""
        return self._shipped is not None or not set(self._signature.symbols) - {BATCH}

    def sizes(self, inputs: Mapping[str, Array]) -> tuple[int, dict[str, int]]:
        """The rows, and every other size, of buffers that are to be tied."""
        dims: dict[str, int] = {}
        for port in self._signature.inputs:
            shape = zip(port.shape, inputs[port.name].shape, strict=True)
            dims |= {name: size for name, size in shape if isinstance(name, str)}
        return dims.pop(BATCH, 1), dims

    def written(self, dims: Mapping[str, int]) -> Written:
        if self._shipped is not None:
            return self._shipped
        assert self._graph is not None
        made = code(self._graph, dims, panels=self._panels)
        held = (array for kind, array in made.constants.items() if kind in HANDED)
        return Written(written(made), tuple(map(_lined, held)))

    def ordered(
        self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]
    ) -> tuple[list[Array], list[Array]]:
        """The buffers in the order of their addresses; C looks at no size, so it is done here."""
        if self._graph is not None:
            rows, dims = self.sizes(inputs)
            sides = ((self._graph.inputs, inputs), (self._graph.outputs, outputs))
            ins, outs = (
                [_fitting(port, buffers, {**dims, BATCH: rows}) for port in ports]
                for ports, buffers in sides
            )
            return ins, outs
        signature = self._signature
        clock = [signature.clock] if signature.clock else []
        names = [*clock, *(p.name for p in signature.inputs), *(m.input for m in signature.memory)]
        ins = [inputs[name] for name in names]
        names = [*(p.name for p in signature.outputs), *(m.output for m in signature.memory)]
        return ins, [outputs[name] for name in names]


def is_short(arrays: Sequence[Array]) -> bool:
    """Whether a step over these is a few microseconds at most: it reads each of them about once."""
    return sum(each.nbytes for each in arrays) <= SHORT


def _fitting(port: Declared, buffers: Mapping[str, Array], sizes: Mapping[str, int]) -> Array:
    """The buffer of a port of the graph: as many numbers of its type as the C will touch."""
    buffer = buffers.get(port.name)
    shape = [sizes.get(dim, -1) if isinstance(dim, str) else dim for dim in port.shape]
    if buffer is None or buffer.dtype != port.dtype or buffer.size != math.prod(shape):
        has = "nothing" if buffer is None else f"{buffer.dtype} {buffer.shape}"
        raise BundleError(
            f"the model has a port of {port.dtype} {tuple(shape)}, the signature {has}",
            where=port.name,
            hint="the file does not match its signature: export it again",
        )
    return buffer


def _lined(array: Array) -> Array:
    """A copy that begins where a line of the cache does: no vector then lies across two."""
    room = np.empty(array.nbytes + LINE, np.uint8)
    held = room[-room.ctypes.data % LINE :][: array.nbytes].view(array.dtype)
    held[...] = array.ravel()
    return held


@dataclass(frozen=True, slots=True, eq=False)
class _Compiled:
    library: ctypes.CDLL
    constants: tuple[Array, ...]


class Bound(partial[None]):
    """`policy_run` over fixed buffers: calling it is one step.

    entry     where its machine code begins, the addresses that it is given, and the rows
    is_short  whether it is over before another thread could have had a turn
    keep      what the addresses point to: the C holds nothing alive
    """

    entry: tuple[int, int, int]
    box: tuple[object, ...] | None = None
    is_short: bool
    keep: tuple[object, ...]


class CEngine:
    """A policy as machine code. It runs on the caller's thread, and on that one alone."""

    def __init__(self, artifact: Artifact, *, flags: Sequence[str] = compiler.NATIVE) -> None:
        self._artifact, self._flags = artifact, flags
        self._text = PolicyText(artifact)
        self._signature = artifact.signature
        self._made: dict[tuple[tuple[str, int], ...], _Compiled] = {}
        if self._text.is_for_every_size:
            self._compiled({})

    @classmethod
    def open(cls, artifact: Artifact, *, threads: int, device: str) -> CEngine:
        return cls(artifact)

    def compiled_otherwise(self) -> CEngine:
        """The same text in a build that has as little in common with this one as can be."""
        return CEngine(self._artifact, flags=compiler.SCALAR)

    def buffers(self, rows: int) -> Buffers:
        make = CompiledBuffers if stepper() is not None else MemoryBuffers
        return make(self._signature, self, rows=rows)

    def bind(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> Bound:
        rows, dims = self._text.sizes(inputs)
        compiled = self._compiled({} if self._text.is_for_every_size else dims)
        ins, outs = self._text.ordered(inputs, outputs)
        size = compiled.library.policy_work_size
        size.restype = ctypes.c_size_t
        # Of this binding alone: two policies that share an engine must not share their work.
        work = _lined(np.zeros(size() or 1, np.uint8))
        arrays = [*ins, *outs, work, *compiled.constants]
        for array in arrays:
            if not array.flags.c_contiguous:
                raise BundleError("a buffer is not in one piece")
        places = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
        run = compiled.library.policy_run
        run.restype = None
        bound = Bound(run, ctypes.cast(places, ctypes.c_void_p), ctypes.c_int(rows))
        address = ctypes.cast(run, ctypes.c_void_p).value or 0
        bound.entry = (address, ctypes.addressof(places), rows)
        bound.is_short = is_short(arrays)
        bound.keep = (compiled.library, arrays, places)
        return bound

    def _compiled(self, dims: Mapping[str, int]) -> _Compiled:
        key = tuple(sorted(dims.items()))
        if key not in self._made:
            made = self._text.written(dims)
            library = compiler.library(made.text, flags=self._flags)
            self._made[key] = _Compiled(library, made.constants)
        return self._made[key]
