"""The engine c: the policy compiled for this machine, called over buffers that never move.

From `policy.onnx` the C is written anew: the file is data, and the compiler sees nothing that a
stranger wrote. Weights stay out of the text and are handed over, so that a policy of the same shape
with other weights is not compiled again. The `c/` folder of a bundle is compiled as it is where the
caller trusts it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from roadworthy.cfile.graph import Graph, read
from roadworthy.cfile.source import HANDED, code, engine_source
from roadworthy.errors import BundleError
from roadworthy.runtime.canary import refuse_unsafe
from roadworthy.runtime.compiler import library
from roadworthy.runtime.engine import Artifact
from roadworthy.spec.port import BATCH, Array
from roadworthy.spec.signature import Signature


@dataclass(frozen=True, slots=True, eq=False)
class _Compiled:
    """A library, and the constants that its calls hand over."""

    library: ctypes.CDLL
    constants: tuple[Array, ...]


class CEngine:
    """A policy as machine code. It runs on the caller's thread, and on that one alone."""

    def __init__(self, artifact: Artifact) -> None:
        self._signature: Signature = artifact.signature
        self._shipped: _Compiled | None = None
        self._made: dict[tuple[tuple[str, int], ...], _Compiled] = {}
        names = {name.rpartition("/")[2]: data for name, data in artifact.files.items()}
        if "policy.c" in names:
            texts = {name: names[name].decode() for name in ("policy.c", "policy.h")}
            self._shipped = _Compiled(library(texts), ())
        self._graph: Graph | None = None if self._shipped else read(artifact.main)
        if not self._shipped and not set(self._signature.symbols) - {BATCH}:
            self._compiled({})

    @classmethod
    def open(cls, artifact: Artifact, *, threads: int, device: str) -> CEngine:
        if not any(name.endswith(".c") for name in artifact.files):
            refuse_unsafe(artifact.main, where=artifact.where, canary=artifact.canary)
        return cls(artifact)

    def bind(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> Callable[[], None]:
        signature = self._signature
        dims: dict[str, int] = {}
        for port in signature.inputs:
            dims |= {
                d: s
                for d, s in zip(port.shape, inputs[port.name].shape, strict=True)
                if isinstance(d, str)
            }
        rows = dims.pop(BATCH, 1)
        compiled = self._compiled(dims)
        names_in, names_out = self._order()
        size = compiled.library.policy_work_size
        size.restype = ctypes.c_size_t
        # Of this binding alone: two policies that share an engine must not share their work.
        work = np.zeros(size() // 8 + 9, np.float64)
        lined = work[-work.ctypes.data % 64 // 8 :]
        arrays = [
            *(inputs[name] for name in names_in), *(outputs[name] for name in names_out),
            lined, *compiled.constants,
        ]  # fmt: skip
        for array in arrays:
            if not array.flags.c_contiguous:
                raise BundleError("a buffer is not in one piece")
        places = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
        run = compiled.library.policy_run
        run.restype = None
        call: Any = partial(run, ctypes.cast(places, ctypes.c_void_p), ctypes.c_int(rows))
        # The C holds addresses only: what they point to lives as long as the call does.
        call.keep = (arrays, places, work)
        return call  # type: ignore[no-any-return]

    def _order(self) -> tuple[list[str], list[str]]:
        """Names of inputs and outputs as the graph lists them."""
        if self._graph is not None:
            return [p.name for p in self._graph.inputs], [p.name for p in self._graph.outputs]
        signature = self._signature
        clock = [signature.clock] if signature.clock else []
        ins = [*clock, *(p.name for p in signature.inputs), *(m.input for m in signature.memory)]
        return ins, [*(p.name for p in signature.outputs), *(m.output for m in signature.memory)]

    def _compiled(self, dims: Mapping[str, int]) -> _Compiled:
        if self._shipped is not None:
            return self._shipped
        key = tuple(sorted(dims.items()))
        if key not in self._made:
            assert self._graph is not None
            written = code(self._graph, dims)
            held = tuple(
                np.ascontiguousarray(array)
                for kind, array in written.constants.items()
                if kind in HANDED
            )
            self._made[key] = _Compiled(library({"policy.c": engine_source(written)}), held)
        return self._made[key]
