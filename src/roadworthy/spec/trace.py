"""The trace: golden steps of the original, so that any machine can test itself."""

from __future__ import annotations

import io
import math
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO

import numpy as np

from roadworthy.errors import BundleError, Finding
from roadworthy.spec.limits import TRACE_BYTES, refuse_larger
from roadworthy.spec.port import BATCH, Array
from roadworthy.spec.run import Key, Run, remembered
from roadworthy.spec.signature import Signature


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace(Run):
    """A recorded run of the original, and how far from it others may be.

    Where rounding was measured, `allowed` says how far each recorded output may be off in a replay
    (infinitely where rounding may turn a choice), and `one_step` how far each element of an output,
    or of a memory, may be after one step from the same state, rows left out. Both
    are stored as powers of two, rounded up.
    """

    allowed: Mapping[str, Array] = field(default_factory=dict)
    one_step: Mapping[Key, Array] = field(default_factory=dict)

    @property
    def episodes(self) -> int:
        return int(self.resets.sum())

    def to_bytes(self) -> bytes:
        """An `.npz` whose bytes depend on the values alone; equal rows are stored once."""
        arrays: dict[str, Array] = {"resets": self.resets}
        for side, ports in (("in", self.inputs), ("out", self.outputs)):
            for name, array in ports.items():
                arrays |= self._stored(side, name, array)
        for side, tolerances in (("allowed", self.allowed), ("one_step", self.one_step)):
            arrays |= {f"{side}:{name}": exponents(value) for name, value in tolerances.items()}
        size = sum(array.nbytes for array in (*self.inputs.values(), *self.outputs.values()))
        refuse_larger(
            "the recorded steps take", size, TRACE_BYTES, where="trace.npz",
            hint="export with smaller inputs, such as images of fewer pixels",
        )  # fmt: skip
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **arrays)
        return buffer.getvalue()

    def _stored(self, side: str, name: str, array: Array) -> dict[str, Array]:
        if array.ndim < 3 or array.shape[1] != self.rows:
            return {f"{side}:{name}": array}
        rows = array.reshape(-1, *array.shape[2:])
        seen: dict[bytes, int] = {}
        order = [seen.setdefault(row.tobytes(), len(seen)) for row in rows]
        if 2 * len(seen) > len(rows):
            return {f"{side}:{name}": array}
        first = [order.index(position) for position in range(len(seen))]
        places = np.asarray(order, dtype=np.int32).reshape(array.shape[:2])
        return {f"{side}.rows:{name}": rows[first], f"{side}.order:{name}": places}

    @classmethod
    def from_bytes(cls, data: bytes) -> Trace:
        """The trace in the bytes of a `trace.npz`, which unpack to no more than the limit."""
        ports: dict[str, dict[str, Array]] = {"in": {}, "out": {}, "allowed": {}, "one_step": {}}
        try:
            file = unpacked(data, where="trace.npz")
            for key, array in file.items():
                kind, _, name = key.partition(":")
                side, _, part = kind.partition(".")
                if part == "rows":
                    order = file[f"{side}.order:{name}"]
                    size = order.size * array[:1].nbytes
                    refuse_larger("it unpacks to", size, TRACE_BYTES, where="trace.npz")
                    ports[side][name] = array[order]
                elif not part and name:
                    ports[side][name] = array
            resets = file["resets"]
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise _unreadable() from error
        if resets.ndim != 2 or resets.dtype != np.bool_ or not resets.size:
            raise _unreadable()
        return cls(
            inputs=ports["in"],
            outputs=ports["out"],
            resets=resets,
            allowed={name: powers(value) for name, value in ports["allowed"].items()},
            one_step={_key(name): powers(value) for name, value in ports["one_step"].items()},
        )


def _key(text: str) -> Key:
    """The key that a file names: that of a memory, or a port; names of ports have no spaces."""
    kind, _, name = text.partition(" ")
    return remembered(name) if kind == "memory" and name else text


def refuse_unfit(trace: Trace, signature: Signature) -> None:
    """An error if the trace is not one of this policy: nothing to compare must not look like equal.

    Every port must be there, in its dtype and shape, and in the same number of steps and rows.
    """
    problems = []
    for kind, recorded, ports in (
        ("input", trace.inputs, signature.inputs), ("output", trace.outputs, signature.outputs),
    ):  # fmt: skip
        for port in ports:
            if port.name not in recorded:
                problems.append(f"the {kind} {port.name!r} is not in it")
                continue
            array = recorded[port.name]
            expected = tuple(trace.rows if dim == BATCH else dim for dim in port.shape)
            fits = len(array.shape) == len(expected) + 1 and array.shape[0] == trace.steps
            fits = fits and all(
                isinstance(dim, str) or dim == size
                for dim, size in zip(expected, array.shape[1:], strict=True)
            )
            if not fits or array.dtype != port.dtype:
                problems.append(f"the {kind} {port.name!r} is {array.dtype} {array.shape}")
    problems += [
        f"the tolerance of {name!r} is not that of an output"
        for name, array in trace.allowed.items()
        if name not in trace.outputs or array.shape != trace.outputs[name].shape
    ]
    if problems:
        findings = [
            Finding(
                code="RW205", where="trace.npz", what=f"the recorded steps do not fit: {each}",
                hint="export the bundle again: without them nothing can be compared",
            )
            for each in problems
        ]  # fmt: skip
        raise BundleError(findings=findings)


def unpacked(data: bytes, *, where: str) -> dict[str, Array]:
    """The arrays of an `.npz`. Sizes are looked at first: it unpacks to what was allowed, or not.

    `np.load` would believe what the file says of itself.
    """
    found: dict[str, Array] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as opened:
            entries = opened.infolist()
            size = sum(entry.file_size for entry in entries)
            refuse_larger("it unpacks to", size, TRACE_BYTES, where=where)
            for entry in entries:
                with opened.open(entry) as file:
                    found[entry.filename.removesuffix(".npy")] = _array(file, entry.file_size)
    except (*_DAMAGED, zipfile.BadZipFile, zlib.error) as error:
        raise _unreadable() from error
    return found


def _array(file: IO[bytes], size: int) -> Array:
    version = np.lib.format.read_magic(file)
    read = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    shape, by_columns, dtype = read(file)
    if dtype.kind not in "biuf" or file.tell() + math.prod(shape) * dtype.itemsize != size:
        raise ValueError("its header does not say what is in it")
    flat = np.frombuffer(file.read(), dtype=dtype)
    return flat.reshape(shape, order="F" if by_columns else "C")


def _unreadable() -> BundleError:
    return BundleError("trace.npz cannot be read", hint="export the bundle again")


_DAMAGED = (
    ValueError, KeyError, OSError, EOFError, RuntimeError, struct.error, OverflowError, SyntaxError,
)  # fmt: skip
# The exponents that stand for nothing at all, and for anything.
_NONE, _ANY = -128, 127


def exponents(values: Array) -> Array:
    """The exponent of the next power of two of each value, in one byte."""
    _, found = np.frexp(values)
    # frexp gives a mantissa below 1, so that a power of two itself would be doubled.
    exact = values == np.ldexp(1.0, found - 1)
    within = np.clip(found - exact, _NONE + 1, _ANY - 1)
    special = np.where(values == 0, _NONE, np.where(np.isfinite(values), within, _ANY))
    return special.astype(np.int8)


def powers(stored: Array) -> Array:
    """What `exponents` stored, as float64."""
    values = np.ldexp(1.0, stored.astype(np.int32))
    return np.where(stored == _NONE, 0.0, np.where(stored == _ANY, np.inf, values))
