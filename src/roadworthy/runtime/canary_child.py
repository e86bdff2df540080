"""The child process of `canary`: loads the model that it is handed and takes one step."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

from roadworthy.errors import BundleError
from roadworthy.runtime.canary import FINE, TOO_MUCH_MEMORY
from roadworthy.runtime.engine import OnnxEngine
from roadworthy.runtime.telemetry import silent_onnxruntime

# What onnxruntime says when it gets no memory.
_NO_MEMORY = ("bad_alloc", "allocate memory", "bad allocation", "length_error")
_DTYPES = {
    "float": "float32", "double": "float64", "float16": "float16", "bool": "bool",
    **{name: name for name in ("int8", "int16", "int32", "int64")},
    **{name: name for name in ("uint8", "uint16", "uint32", "uint64")},
}  # fmt: skip


def main() -> None:
    """Exits with FINE, with TOO_MUCH_MEMORY, or not by itself."""
    room, seconds = int(sys.argv[1]), int(sys.argv[2])
    silent_onnxruntime()
    model = sys.stdin.buffer.read()
    _limit(room, seconds)
    # At once: nothing of what is left to do at the end of a process can change the answer.
    os._exit(_outcome(model))


def _outcome(model: bytes) -> int:
    try:
        _step(OnnxEngine(model).session)
    except MemoryError:
        return TOO_MUCH_MEMORY
    except Exception as error:  # whatever it is, it is an error in the parent too, not a crash
        said = str(error.__cause__ if isinstance(error, BundleError) else error)
        return TOO_MUCH_MEMORY if any(each in said for each in _NO_MEMORY) else FINE
    return FINE


def _step(session: Any) -> None:
    """One step over zeros, in one row; nothing where an input is no plain tensor."""
    feed = {}
    for port in session.get_inputs():
        dtype = _DTYPES.get(port.type.removeprefix("tensor(").removesuffix(")"))
        if dtype is None:
            return
        shape = [size if isinstance(size, int) and size > 0 else 1 for size in port.shape]
        feed[port.name] = np.zeros(shape, dtype=dtype)
    session.run(None, feed)


def _limit(room: int, seconds: int) -> None:
    """No more memory than `room`, no more than so many seconds, no core dump."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows: the parent's clock is the limit
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    spent = int(used.ru_utime + used.ru_stime) + 1
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (spent + seconds, spent + seconds + 1))
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123  # before limits
            mapped = int(file.read().split()[0]) * resource.getpagesize()
    except OSError:  # not Linux, where limits of memory mean little
        return
    resource.setrlimit(resource.RLIMIT_AS, (mapped + room, mapped + room))
