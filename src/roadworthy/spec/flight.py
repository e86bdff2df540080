"""The flight record: what a policy was given on a robot, what it gave, and when.

One `.npz` of plain arrays: `header` is JSON as bytes, `in:NAME`, `out:NAME` and `memory:NAME` are
values, and the rest says when. It is read as the recorded steps of a bundle are: sizes first, and
no pickle.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from roadworthy.errors import BundleError
from roadworthy.spec.bundle import Bundle, Origin, nearest, readable
from roadworthy.spec.json_file import from_json, refuse_malformed
from roadworthy.spec.limits import FILE_BYTES, refuse_larger
from roadworthy.spec.manifest import read_signature
from roadworthy.spec.port import BATCH, Array, Memory, Port
from roadworthy.spec.signature import Signature
from roadworthy.spec.trace import unpacked

FORMAT, VERSION = "roadworthy-flight", 1
_HEADER = {
    "format": str, "version": int, "name": str, "sha256": str, "began": str, "first": int,
    "signature": dict[str, Any](),
}  # fmt: skip
_TIMES = ("start_ns", "took_ns")
_FRAMES = ("frames", "ticks")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlightRecord:
    """The steps of a flight, the last ones where there were too many.

    signature  of the policy that flew
    origin     its name and its sum, which is empty where nobody knows it
    began      when the first step began, in UTC
    first      the number of the first step that was kept
    inputs     port → (steps, *shape)
    outputs    port → (steps, *shape)
    resets     (steps, rows): which rows were reset before which step
    start_ns   (steps,): when each step began
    took_ns    (steps,): how long it took
    frames     before which of the kept steps memory was looked at
    ticks      (frames,): ticks since the last decision then
    memory     name → (frames, *shape): what was remembered then
    """

    signature: Signature
    origin: Origin
    began: str
    first: int
    inputs: Mapping[str, Array] = field(repr=False)
    outputs: Mapping[str, Array] = field(repr=False)
    resets: Array = field(repr=False)
    start_ns: Array = field(repr=False)
    took_ns: Array = field(repr=False)
    frames: Array = field(repr=False)
    ticks: Array = field(repr=False)
    memory: Mapping[str, Array] = field(repr=False)

    @property
    def steps(self) -> int:
        return int(self.resets.shape[0])

    @property
    def rows(self) -> int:
        return int(self.resets.shape[1])

    def write(self, file: IO[bytes]) -> None:
        """Writes the record. It is not packed: a robot that is going down has no time for that."""
        header = {
            "format": FORMAT, "version": VERSION, "name": self.origin.name,
            "sha256": self.origin.sha256, "began": self.began, "first": self.first,
            "signature": self.signature.to_json(),
        }  # fmt: skip
        sides = (("in", self.inputs), ("out", self.outputs), ("memory", self.memory))
        arrays = {f"{side}:{name}": each for side, all_ in sides for name, each in all_.items()}
        arrays |= {name: getattr(self, name) for name in ("resets", *_TIMES, *_FRAMES)}
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
        np.savez(file, allow_pickle=False, **arrays)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> FlightRecord:
        """The record in a file, or an error that says what is wrong with it."""
        place = Path(path)
        if not place.is_file():
            raise BundleError(f"{place} does not exist", hint=nearest(place))
        with readable(place):
            refuse_larger("it has", place.stat().st_size, FILE_BYTES, where=str(place))
            return cls.from_bytes(place.read_bytes(), where=str(place))

    @classmethod
    def from_bytes(cls, data: bytes, *, where: str = "flight.npz") -> FlightRecord:
        """The record in the bytes of a file; every port is there in its dtype and shape."""
        if not data.startswith(b"PK"):
            raise _unreadable(where, "it is no flight record: those are .npz files")
        try:
            arrays = unpacked(data, where=where)
        except BundleError as error:
            if error.findings[0].code == "RW204":
                raise
            raise _unreadable(where, "it is damaged, or was cut short") from error
        if "header" not in arrays or arrays["header"].dtype != np.uint8:
            raise _unreadable(where, "it is an .npz, and no flight record: it has no header")
        header = from_json(arrays["header"].tobytes(), where=where)
        refuse_malformed(header, _HEADER, where=where)
        if (header["format"], header["version"]) != (FORMAT, VERSION):
            got = f"{header['format']} {header['version']}"
            raise _unreadable(where, f"expected {FORMAT} {VERSION}, got {got}")
        signature = read_signature(header["signature"], where=where)
        sides: dict[str, dict[str, Array]] = {"in": {}, "out": {}, "memory": {}}
        for key, array in arrays.items():
            side, colon, name = key.partition(":")
            if colon and side in sides:
                sides[side][name] = array
        plain = {name: arrays.get(name, np.zeros(0)) for name in ("resets", *_TIMES, *_FRAMES)}
        found = cls(
            signature=signature, origin=Origin(name=header["name"], sha256=header["sha256"]),
            began=header["began"], first=header["first"], inputs=sides["in"],
            outputs=sides["out"], memory=sides["memory"], **plain,
        )  # fmt: skip
        _refuse_unfit(found, where)
        return found


def refuse_other_bundle(record: FlightRecord, bundle: Bundle) -> None:
    """An error if the policy that flew is none of the files of the bundle."""
    here = bundle.signature
    if record.origin.sha256 in bundle.sums or (not record.origin.sha256 and same(record, here)):
        return
    flew = f"{record.origin.name or 'a policy'} (SHA-256 {record.origin.sha256[:12] or 'unknown'}…)"
    what = "has the same ports, but is another policy" if same(record, here) else "has other ports"
    raise BundleError(
        f"the flight is one of {flew}, and {bundle.folder.resolve().name} {what}",
        code="RW351", where=str(bundle.folder),
        hint="name the bundle that flew, or leave it out: the flight is then shown without it",
    )  # fmt: skip


def same(record: FlightRecord, signature: Signature) -> bool:
    """Whether a policy of this signature could have flown."""
    return record.signature.to_json() == signature.to_json()


def _refuse_unfit(record: FlightRecord, where: str) -> None:
    problems = []
    resets = record.resets
    if resets.ndim != 2 or resets.dtype != np.bool_ or not resets.size:
        raise _unreadable(where, f"resets is {resets.dtype} {resets.shape}")
    steps, rows, frames = record.steps, record.rows, len(record.frames)
    for name, count in ((_TIMES[0], steps), (_TIMES[1], steps), (_FRAMES[0], frames),
                        (_FRAMES[1], frames)):  # fmt: skip
        array = getattr(record, name)
        if array.dtype != np.int64 or array.shape != (count,):
            problems.append(f"{name} is {array.dtype} {array.shape}")
    if record.first < 0 or (frames and not _inside(record.frames, steps)):
        problems.append("the numbers of its steps are not in order")
    signature = record.signature
    kinds: tuple[tuple[str, Mapping[str, Array], tuple[Port | Memory, ...], int], ...] = (
        ("input", record.inputs, signature.inputs, steps),
        ("output", record.outputs, signature.outputs, steps),
        ("memory", record.memory, signature.memory, frames),
    )
    for kind, arrays, ports, count in kinds:
        for port in ports:
            found = arrays.get(port.name)
            if found is None:
                problems.append(f"the {kind} {port.name!r} is not in it")
            elif not _fits(found, port, count, rows):
                problems.append(f"the {kind} {port.name!r} is {found.dtype} {found.shape}")
    if problems:
        raise _unreadable(where, "; ".join(problems[:5]))


def _inside(frames: Array, steps: int) -> bool:
    return bool(frames[0] >= 0 and frames[-1] < steps and (np.diff(frames) > 0).all())


def _fits(array: Array, port: Port | Memory, count: int, rows: int) -> bool:
    shape = (count, *(rows if dim == BATCH else dim for dim in port.shape))
    return (
        array.dtype == port.dtype
        and len(array.shape) == len(shape)
        and all(
            isinstance(dim, str) or dim == size
            for dim, size in zip(shape, array.shape, strict=True)
        )
    )


def _unreadable(where: str, what: str) -> BundleError:
    return BundleError(
        what, code="RW350", where=where,
        hint="copy the file again from the robot; rw.FlightRecorder writes such files",
    )  # fmt: skip
