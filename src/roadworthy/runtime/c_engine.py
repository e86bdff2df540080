"""The engine c: the policy compiled for this machine, called over buffers that never move.

From `policy.onnx` the C is written anew: the file is data, and the compiler sees nothing that a
stranger wrote. Weights stay out of the text and are handed over, so that a policy of the same shape
with other weights is not compiled again. The `c/` folder of a bundle is compiled as it is where the
caller trusts it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from roadworthy.cfile.constants import HANDED
from roadworthy.cfile.kernels.panels import PANELS, Panels
from roadworthy.cfile.source import code, engine_source
from roadworthy.errors import BundleError
from roadworthy.runtime import compiler
from roadworthy.runtime.c_frame import CompiledBuffers, stepper
from roadworthy.runtime.canary import refuse_unsafe
from roadworthy.runtime.engine import Artifact, Buffers
from roadworthy.runtime.frame import MemoryBuffers
from roadworthy.spec.onnx_graph import Graph, read
from roadworthy.spec.port import BATCH, Array
from roadworthy.spec.signature import Signature

LINE = 64
# So many bytes of weights and values are read before another thread has had a turn and handed back.
SHORT = 2**15


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """What there is to compile, and the constants that its calls hand over."""

    texts: Mapping[str, str]
    constants: tuple[Array, ...]


class PolicyText:
    """The C of an artifact for any sizes: as it was shipped, or written anew from its ONNX file."""

    def __init__(self, artifact: Artifact, *, panels: Panels = PANELS) -> None:
        self._panels = panels
        self._signature: Signature = artifact.signature
        names = {name.rpartition("/")[2]: data for name, data in artifact.files.items()}
        self._shipped: Written | None = None
        if "policy.c" in names:
            texts = {name: names[name].decode() for name in ("policy.c", "policy.h")}
            self._shipped = Written(texts, ())
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
        return Written({"policy.c": engine_source(made)}, tuple(map(_lined, held)))

    def order(self) -> tuple[list[str], list[str]]:
        """Names of inputs and outputs in the order of their addresses."""
        if self._graph is not None:
            return [p.name for p in self._graph.inputs], [p.name for p in self._graph.outputs]
        signature = self._signature
        clock = [signature.clock] if signature.clock else []
        ins = [*clock, *(p.name for p in signature.inputs), *(m.input for m in signature.memory)]
        return ins, [*(p.name for p in signature.outputs), *(m.output for m in signature.memory)]


def is_short(arrays: Sequence[Array]) -> bool:
    """Whether a step over these is a few microseconds at most: it reads each of them about once."""
    return sum(each.nbytes for each in arrays) <= SHORT


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
        names_in, names_out = self._text.order()
        size = compiled.library.policy_work_size
        size.restype = ctypes.c_size_t
        # Of this binding alone: two policies that share an engine must not share their work.
        work = _lined(np.zeros(size() or 1, np.uint8))
        arrays = [
            *(inputs[name] for name in names_in), *(outputs[name] for name in names_out),
            work, *compiled.constants,
        ]  # fmt: skip
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
            written = self._text.written(dims)
            self._made[key] = _Compiled(
                compiler.library(written.texts, flags=self._flags), written.constants
            )
        return self._made[key]
