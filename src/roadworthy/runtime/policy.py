"""The policy at the far end: named values in, named values out, memory kept inside."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import cycle, repeat
from typing import Any

import numpy as np

from roadworthy.errors import PortMismatch, UsageError, did_you_mean
from roadworthy.runtime import feeds
from roadworthy.runtime.engine import AnyEngine, BufferedEngine, Buffers, Steps
from roadworthy.runtime.frame import MemoryBuffers
from roadworthy.runtime.noise import NoiseSource
from roadworthy.runtime.protocol import action, predicted
from roadworthy.runtime.state import PolicyState, memory_findings, refuse_foreign, rows_in
from roadworthy.spec.bundle import Origin
from roadworthy.spec.port import BATCH, Array
from roadworthy.spec.signature import Signature

# Buffers are kept for the batch sizes in use; a server that sees every size must not grow.
MOST_FRAMES = 8


class Policy:
    """A loaded policy: named values in, named values out, memory kept inside.

    `signature` says what goes in and what comes out. Not for use from two threads at once: load it
    twice. With `watch`, NaN among the inputs or in memory is said once, as a warning. `origin` is
    the file that it was loaded from.
    """

    def __init__(
        self,
        signature: Signature,
        engine: AnyEngine,
        *,
        seed: int | None = None,
        watch: bool = False,
        origin: Origin | None = None,
    ) -> None:
        self.signature = signature
        self.origin = origin
        self._engine = engine
        self._buffers = self._room_for(signature.fixed_rows or 1)
        self._fresh = True
        self._watch = watch
        self._frames: dict[tuple[Any, ...], Steps] = {}
        self._use(None)
        self._noted: set[str] = set()
        self._noise = NoiseSource(signature, seed)
        self._draws = bool(self._noise.ports)
        self._look: Callable[[], bool] = _looks().__next__

    def step(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs for `inputs`; memory moves on by one step.

        Values have a batch axis, or all of them have none; what comes back is alike. The
        arrays that come back are the caller's own. Noise that is left out is drawn. A policy on a
        device gives tensors of that device where an input came from it, and NumPy's arrays for
        NumPy's (docs/gpu.md).
        """
        if self._draws and isinstance(inputs, Mapping):
            inputs = self._noise.added(inputs)
        outputs = self._step(inputs)
        if outputs is None:
            outputs = self._prepare(inputs).run()
        self._fresh = False
        if self._looks and self._look() and self._frame is not None:
            self._say_nan(self._frame)
        return outputs

    def with_noise(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The inputs and, where they leave noise out, the draws of the next step."""
        return self._noise.added(inputs) if self._draws else inputs

    def buffers(self, rows: int = 1, **sizes: int) -> dict[str, Any]:
        """What a step of `rows` rows reads, by input: fill it in place, and pass it to `step`.

        Such a step copies no input. On a device it copies no output either: what it gives are
        buffers too, and hold until the next step. `sizes` are those of other symbolic dimensions.
        """
        dims = ({} if self.signature.fixed_rows else {BATCH: rows}) | sizes
        return self._frame_of(dims, unbatched=False, staged=False).inputs()

    def act(self, obs: Any) -> Any:
        """The action for an observation: an array for one input, a mapping for several."""
        return action(self, obs)

    def __call__(self, obs: Any) -> Any:
        """The action for an observation, as `act` gives it."""
        return self.act(obs)

    def predict(
        self,
        observation: Any,
        state: PolicyState | None = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[Any, PolicyState | None]:
        """The action and the next state, as Stable-Baselines3 has it.

        The state is None where the policy has no memory. Without `state` memory starts anew, and so
        do the rows where `episode_start` is true. Whether actions are drawn was decided at the
        export: another `deterministic` is refused.
        """
        return predicted(self, observation, state, episode_start, deterministic)

    def reset(self, mask: Any = None, *, seed: int | None = None) -> None:
        """Memory back to its initial value, in every row or in those where `mask` is true.

        Noise goes on from where it is; `seed` starts it anew, in every row.
        """
        if seed is not None:
            self._noise.restart(seed)
        if mask is None:
            self._buffers.reset()
            self._fresh = True
            return
        # Before the first step, and without memory, any number of rows is as good as reset.
        mask = self._buffers.flags(mask)
        size = math.prod(mask.shape)
        known = self.rows if self.signature.memory and not self._fresh else size
        rows = self._mask(mask, known, where="reset mask")
        if self._buffers.ticks and rows.any() and not rows.all():
            raise UsageError(
                "single rows can be reset only at a tick at which the policy acts, and this is "
                "not one",
                where="reset mask",
                hint=f"it acts every {self.signature.decimation} ticks; reset() resets all rows "
                "at any tick",
            )
        if known == self.rows:
            self._buffers.reset(rows)

    def forget(self, names: Collection[str]) -> None:
        """Single memories back to their initial value: to see what each of them is for."""
        unknown = [name for name in names if name not in self.memory]
        if unknown:
            raise UsageError(
                f"there is no memory {unknown[0]!r}", hint=did_you_mean(unknown[0], self.memory)
            )
        self._buffers.forget([each for each in self.signature.memory if each.name in names])

    @property
    def seed(self) -> int | None:
        """What the noise is drawn from: `load(path, seed=policy.seed)` draws the same again."""
        return self._noise.seed

    @property
    def memory(self) -> dict[str, Array]:
        """A copy of what the policy remembers, by memory name."""
        return self._buffers.copies()

    @property
    def rows(self) -> int:
        """How many rows the policy remembers: 1 before the first step, and without memory."""
        return self._buffers.rows

    def set_memory(self, values: Mapping[str, Any], mask: Any = None) -> None:
        """Changes what the policy remembers, in every row or in those where `mask` is true.

        Values are like those of `memory`, with as many rows as the mask picks; memories that are
        left out stay. Without a mask, values for every memory may bring another number of rows.
        The clock of a policy of two rates goes on: `restore` puts back everything.
        """
        memory = self.signature.memory
        picked = (
            None if mask is None else self._mask(np.asarray(mask), self.rows, where="memory mask")
        )
        rows = self.rows if picked is None else int(picked.sum())
        if picked is None and all(each.name in values for each in memory):
            rows = rows_in(memory, values) or rows
        findings = memory_findings(memory, values, rows)
        if findings:
            raise PortMismatch(findings=findings)
        if picked is None and rows != self.rows:
            self._make_room(rows)
        if rows:
            self._buffers.write(values, picked)
            self._fresh = False

    def state(self) -> PolicyState:
        """All that the policy carries from this step to the next, for `restore`."""
        memory = self.memory
        for array in memory.values():
            array.flags.writeable = False
        return PolicyState(
            rows=self.rows,
            memory=memory,
            tick=int(self._buffers.ticks),
            noise=self._noise.state(),
            fresh=self._fresh,
        )

    def restore(self, state: PolicyState) -> None:
        """Goes on from a state of this policy, or of another one with the same signature.

        The next steps are, bit for bit, those that the policy would have taken from there.
        """
        refuse_foreign(state, self.signature, draws=self._draws)
        if state.rows != self.rows:
            self._make_room(state.rows)
        self._buffers.write(state.memory)
        self._buffers.ticks[...] = state.tick
        self._noise.restore(state.noise)
        self._fresh = state.fresh

    def __copy__(self) -> Policy:
        """A policy with the same engine and a memory of its own, which goes on from here."""
        copied = Policy(self.signature, self._engine, watch=self._watch, origin=self.origin)
        copied.restore(self.state())
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> Policy:
        return self.__copy__()  # what is shared never changes

    def _mask(self, rows: Any, known: int, *, where: str) -> Any:
        """One flag for each of the `known` rows, or an error."""
        dtype = str(rows.dtype).removeprefix("torch.")
        if dtype != "bool" or rows.shape != (known,):
            raise PortMismatch(
                f"expected bool ({known},), one flag for each row, got {dtype} {tuple(rows.shape)}",
                where=where,
                hint="pass a boolean array such as terminated | truncated",
            )
        if self.signature.fixed_rows and rows.any() and not rows.all():
            raise UsageError(
                f"the policy has {known} fixed rows, which change together",
                where=where,
                hint="call it without a mask, or export without batch= to reach single rows",
            )
        return rows

    def _make_room(self, rows: int) -> None:
        """Fresh memory for another number of rows, at the same tick; frames of the old are gone."""
        ticks = self._buffers.ticks
        self._buffers = self._room_for(rows)
        self._buffers.ticks[...] = ticks
        self._frames.clear()
        self._use(None)

    def _use(self, frame: Steps | None) -> None:
        """Changes the buffers that the next step tries first."""
        self._frame = frame
        self._looks = self._watch and not getattr(frame, "looks", False)
        self._step = _no_step if frame is None else frame.step

    def _room_for(self, rows: int) -> Buffers:
        if isinstance(self._engine, BufferedEngine):
            return self._engine.buffers(rows)
        return MemoryBuffers(self.signature, self._engine, rows=rows)

    def _prepare(self, inputs: Mapping[str, Any]) -> Steps:
        """The slow path of a step: check and cast every value, find or make the buffers."""
        if not isinstance(inputs, Mapping):
            raise UsageError(
                f"step takes a mapping of port names to arrays, got {type(inputs).__name__}",
                hint=f"step({{{self.signature.inputs[0].name!r}: …}}), or act(obs)",
            )
        values = feeds.arrays(
            self.signature,
            feeds.flat(inputs),
            lambda port, value: self._buffers.value(port, value, self._noted),
        )
        dims, unbatched = feeds.dims(self.signature, values)
        staged = self._buffers.staged(values.values())
        frame = self._frame_of(dims, unbatched=unbatched, staged=staged)
        frame.fill(values)
        self._use(frame)
        if self._watch:
            self._say_nan(frame)
        return frame

    def _frame_of(self, dims: Mapping[str, int], *, unbatched: bool, staged: bool) -> Steps:
        """The buffers for these sizes; memory follows while it may."""
        rows = dims.get(BATCH, self.rows)
        if self.signature.memory and rows != self.rows:
            if not self._fresh:
                raise PortMismatch(
                    f"the policy remembers {self.rows} rows, got {rows}",
                    where="batch",
                    hint="call policy.reset() before the number of rows changes",
                )
            self._make_room(rows)
        key = (*dims.items(), unbatched, staged)
        frame = self._frames.get(key)
        if frame is None:
            if len(self._frames) >= MOST_FRAMES:
                del self._frames[next(iter(self._frames))]
            frame = self._buffers.frame(dims, unbatched=unbatched, staged=staged)
            self._frames[key] = frame
        return frame

    def _say_nan(self, frame: Steps) -> None:
        """A warning for the first NaN that is seen; then nothing is looked at any more."""
        where = frame.first_nan() or self._buffers.first_nan()
        if where:
            self._watch = self._looks = False
            feeds.warn_nan(where)

    def __repr__(self) -> str:
        return f"Policy(\n{self.signature}\n)"


def _no_step(inputs: Any) -> dict[str, Any] | None:
    """No outputs: there are no buffers yet."""
    return None


def _looks() -> Iterator[bool]:
    """True at every step at which inputs are looked at."""
    return cycle([*repeat(False, feeds.LOOK_EVERY - 1), True])
