"""The trace: golden steps of the original, so that any machine can test itself."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from roadworthy.errors import BundleError
from roadworthy.spec.port import Array
from roadworthy.spec.stepping import Script


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace:
    """What went in, what came out, and which rows were reset before which step.

    `inputs` and `outputs` map a port to an array (steps, *shape); `resets` is (steps, rows).
    Where rounding was measured, `allowed` says how far each recorded output may be off in a replay
    (infinitely where rounding may turn a choice), and `one_step` how far each element of an output,
    or of a memory (`memory <name>`), may be after one step from the same state, rows left out. Both
    are stored as powers of two, rounded up.
    """

    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    resets: Array
    allowed: Mapping[str, Array] = field(default_factory=dict)
    one_step: Mapping[str, Array] = field(default_factory=dict)

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
        for side, tolerances in (("allowed", self.allowed), ("one_step", self.one_step)):
            arrays |= {f"{side}:{name}": exponents(value) for name, value in tolerances.items()}
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
        ports: dict[str, dict[str, Array]] = {"in": {}, "out": {}, "allowed": {}, "one_step": {}}
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
        return cls(
            inputs=ports["in"],
            outputs=ports["out"],
            resets=resets,
            allowed={name: powers(value) for name, value in ports["allowed"].items()},
            one_step={name: powers(value) for name, value in ports["one_step"].items()},
        )


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
