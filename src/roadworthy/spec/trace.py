"""The trace: golden steps of the original, so that any machine can test itself."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from roadworthy.errors import BundleError
from roadworthy.spec.port import Array
from roadworthy.spec.stepping import Script


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace:
    """What went in, what came out, and which rows were reset before which step.

    `inputs` and `outputs` map a port to an array (steps, *shape); `resets` is (steps, rows).
    """

    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    resets: Array

    @property
    def script(self) -> Script:
        """What the original was put through."""
        return Script(inputs=dict(self.inputs), resets=self.resets)

    @property
    def steps(self) -> int:
        return int(self.resets.shape[0])

    @property
    def rows(self) -> int:
        return int(self.resets.shape[1])

    @property
    def episodes(self) -> int:
        return int(self.resets.sum())

    def to_bytes(self) -> bytes:
        """An `.npz` whose bytes depend on the values alone; equal rows are stored once."""
        arrays: dict[str, Array] = {"resets": self.resets}
        for side, ports in (("in", self.inputs), ("out", self.outputs)):
            for name, array in ports.items():
                arrays |= self._stored(side, name, array)
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
        ports: dict[str, dict[str, Array]] = {"in": {}, "out": {}}
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as file:
                for key in file.files:
                    kind, _, name = key.partition(":")
                    side, _, part = kind.partition(".")
                    if part == "rows":
                        ports[side][name] = file[key][file[f"{side}.order:{name}"]]
                    elif not part and name:
                        ports[side][name] = file[key]
                resets = file["resets"]
        except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise BundleError("trace.npz cannot be read", hint="export the bundle again") from error
        return cls(inputs=ports["in"], outputs=ports["out"], resets=resets)
