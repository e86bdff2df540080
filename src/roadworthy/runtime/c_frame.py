"""Buffers of the engine c: a step is one call of C, which also copies what comes in and goes out.

On the device wasm too: the call then enters the sandbox, with the limits that its engine set.

`stepper.c` is compiled once for this Python and this NumPy. Where their headers are missing the
engine steps over the usual buffers, as every other engine does: slower by a microsecond.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from roadworthy.errors import BundleError
from roadworthy.runtime import compiler
from roadworthy.runtime.feeds import LOOK_EVERY
from roadworthy.runtime.frame import Frame, MemoryBuffers
from roadworthy.runtime.trust import written_here
from roadworthy.spec.port import Array

# A dict of inputs, or nothing where the buffers hold them → outputs, None where they do not fit.
Step = Callable[..., dict[str, Any] | None]


class Bound(Protocol):
    """What `bind` of the engine c gives, beside being a call.

    entry     the address of `policy_run`, that of the places that it takes, and the rows
    box       what `boxed` of stepper.c takes; None outside of a sandbox
    is_short  whether a step takes less time than handing the interpreter to another thread
    """

    entry: tuple[int, int, int]
    box: tuple[Any, ...] | None
    is_short: bool


@cache
def stepper() -> Callable[..., Step] | None:
    """What makes a step in C out of buffers; None where it cannot be compiled here."""
    folders = [sysconfig.get_path("include"), np.get_include()]
    if not (Path(folders[0]) / "Python.h").is_file():
        return None
    text = resources.files("roadworthy.runtime").joinpath("stepper.c").read_text(encoding="ascii")
    versions = f"/* {sys.implementation.cache_tag} {sys.abiflags} NumPy {np.__version__} */\n"
    try:
        module = compiler.extension(
            written_here({"stepper.c": versions + text}), "stepper", folders
        )
    except (BundleError, ImportError):  # the compiler and the headers are not a pair
        return None
    made: Callable[..., Step] = module.stepper
    return made


class CompiledBuffers(MemoryBuffers):
    """Memory that stays on its side: a step in C moves what it wrote back to where it is read."""

    def frame(self, dims: Mapping[str, int], *, unbatched: bool, staged: bool) -> CompiledFrame:
        return CompiledFrame(self, dims, unbatched=unbatched)


class CompiledFrame(Frame):
    """Buffers whose step is one call of C. It looks for NaN itself, and gives None where it is."""

    looks = True

    def __init__(
        self, buffers: CompiledBuffers, dims: Mapping[str, int], *, unbatched: bool
    ) -> None:
        super().__init__(buffers, dims, unbatched=unbatched)
        make, bound = stepper(), self._runs[buffers.turn]
        assert make is not None
        self._call = self._made(make, bound)  # type: ignore[arg-type]

    def _made(self, make: Callable[..., Step], bound: Bound) -> Step:
        buffers = self._buffers
        here, there = buffers.sides[buffers.turn], buffers.sides[1 - buffers.turn]
        ports = (*self.inputs().items(), *self._views.items())
        moves = tuple((here[name], there[name]) for name in here)
        tick = buffers.ticks if buffers.decimation > 1 else None
        return make(
            bound.entry, bound.box, bound.is_short, LOOK_EVERY, ports, len(self._slots), moves,
            tick, buffers.decimation, bound,
        )  # fmt: skip

    @property
    def step(self) -> Step:
        return self._call

    def run(self) -> dict[str, Array]:
        outputs = self._call()
        assert outputs is not None
        return outputs
