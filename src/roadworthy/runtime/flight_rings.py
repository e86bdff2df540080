"""The rings of a flight recorder: the last steps of a policy, in arrays that are made once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

import numpy as np

from roadworthy.errors import UsageError
from roadworthy.runtime.policy import Policy
from roadworthy.runtime.state import PolicyState
from roadworthy.spec.bundle import Origin
from roadworthy.spec.flight import FlightRecord
from roadworthy.spec.limits import MEBI, TRACE_BYTES
from roadworthy.spec.port import BATCH, Array, Port

# What is kept where nobody said how many steps: an hour of 48 → 12 at 50 Hz takes 44 MiB.
USUAL_BYTES = 64 * MEBI
# Half of what a reader takes.
MOST_BYTES = TRACE_BYTES // 2


class Rings:
    """The last steps, in arrays that are made once.

    One slot more than is kept: a step that is interrupted while it is written leaves a slot that
    nobody reads.
    """

    def __init__(
        self,
        policy: Policy,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any],
        wanted: int | None,
        every: int,
    ) -> None:
        signature = policy.signature
        self.began = ""
        shapes = {p.name: _slot(p, inputs[p.name]) for p in signature.inputs}
        shapes |= {p.name: _slot(p, outputs[p.name]) for p in signature.outputs}
        ports = (*signature.inputs, *signature.outputs)
        self.rows = next(
            (shapes[p.name][0][p.batch_axis] for p in ports if p.batch_axis is not None),
            signature.fixed_rows or 1,
        )
        each = sum(int(np.prod(shapes[p.name][0])) * np.dtype(p.dtype).itemsize for p in ports) + (
            self.rows + 16
        )
        memory = policy.memory
        held = sum(value.nbytes for value in memory.values()) + 16
        most = int((MOST_BYTES if wanted else USUAL_BYTES) / (each + held / every))
        self.kept = max(1, min(wanted or most, most))
        self.slots = self.kept + 1
        self.inputs = [_Ring(p, self.slots, *shapes[p.name]) for p in signature.inputs]
        self.outputs = [_Ring(p, self.slots, *shapes[p.name]) for p in signature.outputs]
        self.resets = np.zeros((self.slots, self.rows), dtype=np.bool_)
        # Written through views, which take a number in half the time of an array.
        self.times = np.zeros((2, self.slots), dtype=np.int64)
        self.start, self.took = memoryview(self.times[0]), memoryview(self.times[1])
        self.frames = self.kept // every + 17
        self.frame_steps = np.full(self.frames, -1, dtype=np.int64)
        self.ticks = np.zeros(self.frames, dtype=np.int64)
        self.memory = {
            name: np.zeros((self.frames, *value.shape), value.dtype)
            for name, value in memory.items()
        }
        self.frame = 0
        self._list()

    def begin(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> bool:
        """Whether a first step has room here; from now on it is in its callers' shapes."""
        self.began = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        for rings, values in ((self.inputs, inputs), (self.outputs, outputs)):
            for ring in rings:
                shape, given = _slot(ring.port, values[ring.name])
                if shape != ring.whole.shape[1:]:
                    return False
                ring.give(given)
        self._list()
        return True

    def _list(self) -> None:
        self.sources, self.results = (
            [(ring.name, ring.slots, ring.shape, ring) for ring in rings]
            for rings in (self.inputs, self.outputs)
        )

    def write(
        self,
        step: int,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any],
        began: int,
        took: int,
        pending: Any,
    ) -> None:
        """Copies a step into its slot."""
        at = step % self.slots
        for name, slots, shape, ring in self.sources:
            value = inputs[name]
            if getattr(value, "shape", None) == shape:
                slots[at] = value
            else:
                ring.write(at, value)
        for name, slots, shape, ring in self.results:
            value = outputs[name]
            if value.shape == shape:
                slots[at] = value
            else:
                ring.write(at, value)
        if pending is not False or step > self.kept:  # which is when a slot was used before
            self.resets[at] = pending
        self.start[at] = began
        self.took[at] = took

    def look(self, step: int, state: PolicyState) -> None:
        """Copies what was remembered before a step."""
        at = self.frame % self.frames
        for name, value in state.memory.items():
            self.memory[name][at] = value
        self.ticks[at] = state.tick
        self.frame_steps[at] = step
        self.frame += 1

    def record(self, policy: Policy, count: int) -> FlightRecord:
        steps = min(count, self.kept)
        first = count - steps
        order = np.arange(first, count) % self.slots
        start, took = self.times[:, order]
        numbers = np.arange(max(0, self.frame - self.frames), self.frame)
        frames = numbers[self.frame_steps[numbers % self.frames] >= first] % self.frames
        return FlightRecord(
            signature=policy.signature,
            origin=policy.origin or Origin(name="", sha256=""),
            began=self.began,
            first=first,
            inputs={ring.name: ring.whole[order] for ring in self.inputs},
            outputs={ring.name: ring.whole[order] for ring in self.outputs},
            resets=self.resets[order],
            start_ns=start - start[0],
            took_ns=took,
            frames=self.frame_steps[frames] - first,
            ticks=self.ticks[frames],
            memory={name: values[frames] for name, values in self.memory.items()},
        )


class _Ring:
    """The values of a port: `whole` has its shape, `slots` that of what the caller passes."""

    __slots__ = ("name", "port", "shape", "slots", "whole")

    def __init__(
        self, port: Port, slots: int, shape: tuple[int, ...], given: tuple[int, ...]
    ) -> None:
        self.port, self.name = port, port.name
        self.whole = np.zeros((slots, *shape), dtype=port.dtype)
        self.give(given)

    def give(self, given: tuple[int, ...]) -> None:
        self.slots, self.shape = self.whole.reshape(len(self.whole), *given), given

    def write(self, at: int, value: Any) -> None:
        """A value that is no array, or is one with or without the axis of its only row."""
        values: Array = np.asarray(value)
        if values.size != self.whole[at].size:
            raise UsageError(
                f"the recorder began with {self.shape}, got {values.shape}", where=self.name,
                hint="one recorder for each number of rows: close this one, and make another",
            )  # fmt: skip
        self.slots[at] = values.reshape(self.shape)


def room_for(policy: Policy, steps: int | None, every: int) -> Rings | None:
    """Rings for the rows that a policy has now, or None where sizes are known at a step alone."""
    signature = policy.signature
    ports = (*signature.inputs, *signature.outputs)
    if any(isinstance(dim, str) and dim != BATCH for port in ports for dim in port.shape):
        return None
    zeros = {p.name: np.broadcast_to(0, p.sizes({BATCH: policy.rows})) for p in ports}
    return Rings(policy, zeros, zeros, steps, every)


def _slot(port: Port, value: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of a port in a step, and the one in which the caller passes it."""
    try:
        given = np.asarray(value).shape
    except (TypeError, RuntimeError) as error:
        raise UsageError(
            f"a recorder keeps NumPy's arrays, got a {type(value).__name__} of a device",
            where=port.name, hint="pass NumPy's arrays, or record a policy loaded on the cpu",
        ) from error  # fmt: skip
    axis = port.batch_axis
    if axis is None or len(given) == len(port.shape):
        return given, given
    return (*given[:axis], 1, *given[axis:]), given
