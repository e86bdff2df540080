"""The flight recorder: a policy around a policy that remembers its last steps, and leaves a file.

A step costs a few copies into rings that are made once; nothing is written to a disk before `save`
or the end, because a disk that is busy would hold up a control loop.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from roadworthy.errors import BundleError, UsageError
from roadworthy.runtime.flight_rings import Rings, room_for
from roadworthy.runtime.policy import Policy
from roadworthy.runtime.protocol import PolicyWrapper
from roadworthy.runtime.state import PolicyState
from roadworthy.spec.flight import FlightRecord

if TYPE_CHECKING:
    from typing_extensions import Self

NEVER = 1 << 62


class FlightRecorder(PolicyWrapper):
    """A policy that records its steps into a file that `rw.report` shows.

    It stands wherever a policy does, best in a `with` block: the file is written at its end,
    however that comes, and whole or not at all; `save` writes it before. In memory are the last
    `steps` (of 512 MiB at most), or what 64 MiB hold, and what the policy remembers at every
    `memory_every`-th.
    """

    policy: Policy

    def __init__(
        self,
        policy: Policy,
        path: str | os.PathLike[str] = "flight.npz",
        *,
        steps: int | None = None,
        memory_every: int = 100,
        replace: bool = False,
    ) -> None:
        if not isinstance(policy, Policy):
            raise UsageError(
                f"a recorder stands around the policy itself, got {type(policy).__name__}",
                hint="policy = rw.FlightRecorder(rw.load(…), …), and wrappers around that",
            )
        for name, count in (("steps", steps), ("memory_every", memory_every)):
            if count is not None and (not isinstance(count, int) or count < 1):
                raise UsageError(f"expected a whole number of 1 or more, got {count!r}", where=name)
        super().__init__(policy)
        self.path = Path(path)
        _refuse_place(self.path, replace)
        self._wanted, self._every = steps, memory_every
        self._draws = any(port.about.noise for port in policy.signature.inputs)
        self._remembers = bool(policy.signature.memory or policy.signature.clock)
        # Before the flight: room for an hour takes some milliseconds.
        self._rings = room_for(policy, steps, memory_every)
        self._count = self._saved = 0
        self._look_at = 0 if self._remembers else NEVER
        self._pending: Any = False
        self._closed = False
        self._step = policy.step
        atexit.register(self.close)

    @property
    def recorded(self) -> int:
        """How many steps were recorded, those included that made room since."""
        return self._count

    def step(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs of the policy; the step is in the record."""
        if self._closed:
            return self._step(inputs)
        if self._draws:
            inputs = self.policy.with_noise(inputs)
        try:
            return self._recorded(inputs)
        except BaseException:  # a step that is half recorded: what is remembered is looked at anew
            self._look_at = self._count if self._remembers else NEVER
            raise

    def _recorded(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        state = self.policy.state() if self._count >= self._look_at else None
        began = perf_counter_ns()
        outputs = self._step(inputs)
        took = perf_counter_ns() - began
        rings = self._rings
        if rings is None or not self._count:
            rings = self._begun(rings, inputs, outputs)
            if state is not None and state.fresh:  # it is as after a reset, in rows yet unknown
                self._pending, state = True, None
                self._look_at = self._every
        if state is not None:
            rings.look(self._count, state)
            self._look_at = self._count + self._every
        rings.write(self._count, inputs, outputs, began, took, self._pending)
        self._count += 1
        self._pending = False
        return outputs

    def _begun(
        self, rings: Rings | None, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
    ) -> Rings:
        """Rings for the first step: those that there are, or others where it has other sizes."""
        if rings is None or not rings.begin(inputs, outputs):
            rings = Rings(self.policy, inputs, outputs, self._wanted, self._every)
            rings.begin(inputs, outputs)
        self._rings = rings
        return rings

    def reset(self, mask: Any = None, *, seed: int | None = None) -> None:
        self.policy.reset(mask, seed=seed)
        if mask is None:
            self._pending = True
        elif self._pending is not True:
            rows = np.asarray(mask, dtype=bool)
            self._pending = rows if self._pending is False else self._pending | rows

    def set_memory(self, values: Mapping[str, Any], mask: Any = None) -> None:
        self.policy.set_memory(values, mask)
        self._look_at = min(self._look_at, self._count)

    def restore(self, state: PolicyState) -> None:
        self.policy.restore(state)
        if self._remembers:
            self._look_at = self._count

    def record(self) -> FlightRecord:
        """What is recorded by now."""
        if self._rings is None or not self._count:
            raise UsageError("no step was recorded yet", where="record")
        return self._rings.record(self.policy, self._count)

    def save(self) -> Path:
        """Writes what is recorded by now; the file is whole at every moment, the old or the new."""
        found = self.record()
        partial = self.path.with_name(f".{self.path.name}.{os.getpid()}.partial")
        try:
            with partial.open("wb") as file:
                found.write(file)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self.path)
        except OSError as error:
            raise BundleError(
                f"the flight cannot be written: {error.strerror or error}",
                where=str(self.path), hint="free the disk, or set recorder.path and save() again",
            ) from error  # fmt: skip
        finally:
            partial.unlink(missing_ok=True)
        self._saved = self._count
        return self.path

    def close(self) -> None:
        """Writes the file, if there are steps that are not in it; later ones are not recorded."""
        if self._closed:
            return
        if self._count > self._saved:
            self.save()
        self._closed = True
        atexit.unregister(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __copy__(self) -> Self:
        raise UsageError(
            "a recorder cannot be copied: two would write one file",
            hint="copy.copy(recorder.policy) is a policy that goes on from here, unrecorded",
        )


def _refuse_place(place: Path, replace: bool) -> None:
    """An error before the flight, not at its end."""
    if not place.parent.is_dir():
        raise UsageError(f"there is no folder {place.parent}", hint=f"mkdir -p {place.parent}")
    if place.suffix != ".npz":
        raise UsageError(f"{place.name} does not end in .npz", where="path", hint="flight.npz")
    if place.is_dir() or (place.exists() and not replace):
        raise UsageError(
            f"{place} is there already", where="path",
            hint="name another file; replace=True writes over it",
        )  # fmt: skip
    if not os.access(place.parent, os.W_OK):
        raise UsageError(f"nobody may write to {place.parent}", where="path")
