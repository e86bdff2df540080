"""The engine c on the device wasm: the same C as a WebAssembly module, in wasmtime's sandbox.

The module has no imports, a memory of fixed size and fuel for each step: whatever a stranger's file
makes of it, it can compute, and nothing else. Its bits are those of the engine c.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np

from roadworthy.errors import BundleError, need
from roadworthy.runtime.c_engine import LINE, PolicyText, is_short
from roadworthy.runtime.c_frame import CompiledBuffers, stepper
from roadworthy.runtime.compiler import wasm_module
from roadworthy.runtime.engine import Artifact, Buffers
from roadworthy.runtime.frame import MemoryBuffers
from roadworthy.spec.port import Array
from roadworthy.targets.c.kernels.panels import Panels

# Instructions for each row of a step: a second or two, a thousand times what a policy takes.
FUEL = 2 * 10**9
PAGE = 65536
# Columns of weights side by side: what four registers of the sandbox hold, read from one end to the
# other. Wider ones are read in passes, from further away each time.
PANELS = Panels(vector=16, matrix=16)
# The version whose C API is called past its Python API; of others only public names are used.
KNOWN_INSIDE = "50."


class WasmEngine:
    """A policy that cannot do harm. It runs on the caller's thread."""

    def __init__(self, artifact: Artifact) -> None:
        self._wasmtime: Any = need("wasmtime", extra="wasm")
        self._text = PolicyText(artifact, panels=PANELS)
        self._where, self._signature = artifact.where, artifact.signature
        config = self._wasmtime.Config()
        config.consume_fuel = True
        # Other libraries take a process's signal handlers over: what must be stopped is checked for
        # in the code itself, and no signal is waited for.
        config.signals_based_traps = False
        self._engine = self._wasmtime.Engine(config)
        self._made: dict[tuple[tuple[str, int], ...], tuple[Any, Sequence[Array]]] = {}
        if self._text.is_for_every_size:
            self._compiled({})

    @classmethod
    def open(cls, artifact: Artifact, *, threads: int, device: str) -> WasmEngine:
        return cls(artifact)

    def buffers(self, rows: int) -> Buffers:
        inside = version("wasmtime").startswith(KNOWN_INSIDE) and stepper() is not None
        make = CompiledBuffers if inside else MemoryBuffers
        return make(self._signature, self, rows=rows)

    def bind(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> Callable[[], None]:
        rows, dims = self._text.sizes(inputs)
        module, constants = self._compiled({} if self._text.is_for_every_size else dims)
        ins, outs = self._text.ordered(inputs, outputs)
        store = self._wasmtime.Store(self._engine)
        store.set_fuel(FUEL)
        exports = self._guarded(lambda: self._exports(store, module))
        memory = exports["memory"]
        size = self._guarded(lambda: exports["policy_work_size"](store))
        work = np.zeros(max(int(size), 1), np.uint8)
        base = -(-int(exports["__heap_base"].value(store)) // LINE) * LINE
        arrays = [*ins, *outs, work, *constants]
        starts = base + np.cumsum([0, *(-(-each.nbytes // LINE) * LINE for each in arrays)])
        whole = int(starts[-1]) + 4 * len(arrays)
        # What it has from now on is all that it will ever have.
        store.set_limits(memory_size=-(-whole // PAGE) * PAGE)
        more = -(-whole // PAGE) - memory.size(store)
        if more > 0:
            self._guarded(lambda: memory.grow(store, more))
        views = [
            _view(memory, store, int(start), each)
            for start, each in zip(starts, arrays, strict=False)
        ]
        for view, array in zip(views, arrays, strict=True):
            view[...] = array
        places = np.asarray(starts[:-1], np.uint32)
        _view(memory, store, int(starts[-1]), places)[...] = places
        run = exports["policy_run"]
        call = self._guarded(lambda: self._call(store, run, int(starts[-1]), rows))
        given = tuple(zip(views, ins, strict=False))
        taken = tuple(zip(outs, views[len(ins) :], strict=False))

        def step() -> None:
            for view, array in given:
                view[...] = array
            self._guarded(call)
            for array, view in taken:
                array[...] = view

        if isinstance(call, _Inside):
            return Bound(step, box=(*call.box, call.failed, given, taken), arrays=arrays, kept=call)
        return step

    def _call(self, store: Any, run: Any, place: int, rows: int) -> Callable[[], None]:
        """`policy_run` with fresh fuel, as wasmtime's C API offers it.

        The call of its Python API looks types up and makes values each time, which takes longer
        than a small policy. What that one checks is checked here, once.
        """
        fuel, whole, kind = FUEL * rows, self._wasmtime.ValType.i32(), run.type(store)
        if kind.params != [whole, whole] or kind.results:
            raise self._wasmtime.WasmtimeError("policy_run is of another type")
        if not version("wasmtime").startswith(KNOWN_INSIDE):
            return partial(_plain_call, store, run, place, rows, fuel)
        return _Inside(self, store, run, place, rows, fuel)

    def _compiled(self, dims: Mapping[str, int]) -> tuple[Any, Sequence[Array]]:
        key = tuple(sorted(dims.items()))
        if key not in self._made:
            written = self._text.written(dims)
            module = self._wasmtime.Module(self._engine, wasm_module(written.text))
            self._made[key] = (module, written.constants)
        return self._made[key]

    def _exports(self, store: Any, module: Any) -> Any:
        # With nothing to import from, a module that asks for something cannot even start.
        exports = self._wasmtime.Instance(store, module, []).exports(store)
        exports["_initialize"](store)
        return exports

    def _guarded(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (self._wasmtime.WasmtimeError, self._wasmtime.Trap) as error:
            said = str(error).strip().splitlines()
            raise BundleError(
                f"the policy was stopped in its sandbox: {said[-1].strip() if said else error}",
                where=self._where,
                hint="a policy that Roadworthy wrote never asks for this: look where it comes from",
            ) from error


class _Inside:
    """A call of wasmtime's C API: a function's arguments and its fuel, all in place.

    box  the addresses of `wasmtime_context_set_fuel` and `wasmtime_func_call_unchecked`, and what
         they take, for a caller in C
    """

    def __init__(
        self, engine: WasmEngine, store: Any, run: Any, place: int, rows: int, fuel: int
    ) -> None:
        self._engine, self._wasmtime = engine, engine._wasmtime
        self._ffi = ffi = importlib.import_module("wasmtime._bindings")
        raw, self._trap = (ffi.wasmtime_val_raw_t * 2)(), ctypes.c_void_p()
        raw[0].i32, raw[1].i32 = place, rows  # nothing overwrites them: there are no results
        self._kept = (store, run, raw)
        word, number, count = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t
        sets = ctypes.CFUNCTYPE(word, word, number)(("wasmtime_context_set_fuel", ffi.dll))
        calls = ctypes.CFUNCTYPE(word, word, word, word, count, word)(
            ("wasmtime_func_call_unchecked", ffi.dll)
        )
        context, function, values, trap = (
            ctypes.addressof(each)
            for each in (store._context().contents, run._func, raw, self._trap)
        )
        self._refuel = partial(sets, word(context), number(fuel))
        places = (word(context), word(function), word(values), count(2), word(trap))
        self._enter = partial(calls, *places)
        functions = (ctypes.cast(each, word).value for each in (sets, calls))
        self.box = (*functions, context, function, values, trap, fuel)

    def __call__(self) -> None:
        self._refuel()
        error = self._enter()
        if error or self._trap.value:
            self._raise(error)

    def failed(self, error: int) -> None:
        """Raises what a call from C came back with."""
        self._engine._guarded(partial(self._raise, error))

    def _raise(self, error: int) -> None:
        if error:
            held = ctypes.cast(error, ctypes.POINTER(self._ffi.wasmtime_error_t))
            raise self._wasmtime.WasmtimeError._from_ptr(held)
        held = ctypes.cast(self._trap.value or 0, ctypes.POINTER(self._ffi.wasm_trap_t))
        self._trap.value = None
        raise self._wasmtime.Trap._from_ptr(held)


class Bound:
    """A step in the sandbox: a call from Python, and what a caller in C needs for the same."""

    entry = (0, 0, 0)

    def __init__(
        self,
        step: Callable[[], None],
        *,
        box: tuple[Any, ...],
        arrays: Sequence[Array],
        kept: object,
    ) -> None:
        self._step, self.box, self.is_short = step, box, is_short(arrays)
        self._kept = kept

    def __call__(self) -> None:
        self._step()


def _plain_call(store: Any, run: Any, place: int, rows: int, fuel: int) -> None:
    """`policy_run` as wasmtime's Python API calls it: some twenty microseconds slower."""
    store.set_fuel(fuel)
    run(store, place, rows)


def _view(memory: Any, store: Any, start: int, like: Array) -> Array:
    """Memory of the module as an array of the shape and type of another."""
    address = ctypes.addressof(memory.data_ptr(store).contents) + start
    raw = (ctypes.c_ubyte * max(like.nbytes, 1)).from_address(address)
    flat: Array = np.frombuffer(memoryview(raw), like.dtype, count=like.size)
    return flat.reshape(like.shape)
