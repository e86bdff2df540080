"""The policy at the far end: named values in, named values out, memory kept inside."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from roadworthy.errors import PortMismatch, UsageError, did_you_mean
from roadworthy.runtime import feeds
from roadworthy.runtime.engine import Engine
from roadworthy.runtime.frame import Frame, State
from roadworthy.runtime.noise import NoiseSource
from roadworthy.spec.port import BATCH, Array
from roadworthy.spec.signature import Signature

# Buffers are kept for the batch sizes in use; a server that sees every size must not grow.
MOST_FRAMES = 8


class Policy:
    """A policy that runs on `engine`. Not for use from two threads at once: load it twice."""

    def __init__(self, signature: Signature, engine: Engine, *, seed: int | None = None) -> None:
        self.signature = signature
        self._engine = engine
        self._state = State(signature, rows=signature.fixed_rows or 1)
        self._fresh = True
        self._frames: dict[tuple[Any, ...], Frame] = {}
        self._frame: Frame | None = None
        self._noted: set[str] = set()
        self._noise = NoiseSource(signature, seed)

    def step(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """The outputs for `inputs`; memory moves on by one step.

        Values have a batch axis, or all of them have none; what comes back is alike. The
        arrays that come back are the caller's own. Noise that is left out is drawn.
        """
        if self._noise.ports and isinstance(inputs, Mapping):
            inputs = self._noise.added(inputs)
        frame = self._frame
        if frame is None or type(inputs) is not dict or not frame.load(inputs):
            frame = self._prepare(inputs)
        outputs = frame.run(self._state)
        self._fresh = False
        return outputs

    def act(self, obs: Any) -> Any:
        """The action for an observation: an array for one input, a mapping for several."""
        ports = self.signature.observed
        if not isinstance(obs, Mapping):
            if len(ports) > 1:
                names = ", ".join(repr(port.name) for port in ports)
                raise UsageError(
                    f"the policy has {len(ports)} inputs, got one {type(obs).__name__}",
                    hint=f"pass a dict with {names}",
                )
            obs = {ports[0].name: obs}
        action = self.step(obs)[self.signature.action_output]
        return action if action.ndim else action[()]

    def reset(self, mask: Any = None, *, seed: int | None = None) -> None:
        """Memory back to its initial value, in every row or in those where `mask` is true.

        Noise goes on from where it is; `seed` starts it anew, in every row.
        """
        if seed is not None:
            self._noise.restart(seed)
        if mask is None:
            self._state.reset()
            self._fresh = True
            return
        rows = np.asarray(mask)
        # Before the first step, and without memory, any number of rows is as good as reset.
        known = self._state.rows if self.signature.memory and not self._fresh else rows.size
        if rows.dtype != np.bool_ or rows.shape != (known,):
            raise PortMismatch(
                f"expected bool ({known},), one flag for each row, got {rows.dtype} {rows.shape}",
                where="reset mask",
                hint="pass a boolean array such as terminated | truncated",
            )
        if self.signature.fixed_rows and rows.any() and not rows.all():
            raise UsageError(
                f"the policy has {known} fixed rows, which are reset together",
                where="reset mask",
                hint="call reset() without a mask, or export without batch= to reset single rows",
            )
        if self._state.ticks and rows.any() and not rows.all():
            raise UsageError(
                "single rows can be reset only at a tick at which the policy acts, and this is "
                "not one",
                where="reset mask",
                hint=f"it acts every {self.signature.decimation} ticks; reset() resets all rows "
                "at any tick",
            )
        if known == self._state.rows:
            self._state.reset(rows)

    def forget(self, names: Collection[str]) -> None:
        """Single memories back to their initial value: to see what each of them is for."""
        unknown = [name for name in names if name not in self.memory]
        if unknown:
            raise UsageError(
                f"there is no memory {unknown[0]!r}", hint=did_you_mean(unknown[0], self.memory)
            )
        self._state.forget([each for each in self.signature.memory if each.name in names])

    @property
    def seed(self) -> int | None:
        """What the noise is drawn from: `load(path, seed=policy.seed)` draws the same again."""
        return self._noise.seed

    @property
    def memory(self) -> dict[str, Array]:
        """A copy of what the policy remembers, by memory name."""
        return self._state.snapshot()

    def _prepare(self, inputs: Mapping[str, Any]) -> Frame:
        """The slow path of a step: check and cast every value, find or make the buffers."""
        if not isinstance(inputs, Mapping):
            raise UsageError(
                f"step takes a mapping of port names to arrays, got {type(inputs).__name__}",
                hint=f"step({{{self.signature.inputs[0].name!r}: …}}), or act(obs)",
            )
        values = feeds.arrays(self.signature, inputs, self._noted)
        dims, unbatched = feeds.dims(self.signature, values)
        rows = dims.get(BATCH, self._state.rows)
        if self.signature.memory and rows != self._state.rows:
            if not self._fresh:
                raise PortMismatch(
                    f"the policy remembers {self._state.rows} rows, got {rows}",
                    where="batch",
                    hint="call policy.reset() before the number of rows changes",
                )
            self._state = State(self.signature, rows=rows)
            self._frames.clear()
        key = (*dims.items(), unbatched)
        frame = self._frames.get(key)
        if frame is None:
            if len(self._frames) >= MOST_FRAMES:
                del self._frames[next(iter(self._frames))]
            frame = Frame(self.signature, self._engine, self._state, dims, unbatched=unbatched)
            self._frames[key] = frame
        frame.fill(values)
        self._frame = frame
        return frame

    def __repr__(self) -> str:
        return f"Policy(\n{self.signature}\n)"
