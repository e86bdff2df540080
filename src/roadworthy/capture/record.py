"""The original, stepped as its user steps it, and the trace it leaves."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from roadworthy.capture import memory as remembered
from roadworthy.capture.borrowed import borrowed
from roadworthy.capture.calling import calling
from roadworthy.capture.compose import Composed
from roadworthy.capture.failures import explained
from roadworthy.capture.memory import Tensors
from roadworthy.capture.source import Attribute, Source
from roadworthy.errors import Finding, UsageError
from roadworthy.spec.layout import Layout
from roadworthy.spec.port import Array
from roadworthy.spec.samples import draw
from roadworthy.spec.signature import Signature
from roadworthy.spec.trace import Trace
from roadworthy.spec.transforms import Argmax, MultiDiscrete

TRACE_STEPS = 256
TRACE_ROWS = 2
EPISODE_STEPS = 40


class Original:
    """The caller's module in eager PyTorch: the truth that an artifact is compared with.

    A module that keeps its memory in attributes keeps it there: nothing is substituted.
    """

    def __init__(self, source: Source, signature: Signature, rows: int) -> None:
        if source.rewritten is not None:
            source = dataclasses.replace(source, module=source.rewritten.module, rewritten=None)
        slots = tuple(_slot(source, signature, name) for name in source.memory)
        arguments = [slot.name for slot in slots if slot.path is None]
        self._composed = Composed(source, calling(source, arguments), slots)
        self._signature = signature
        self._attributes = [slot for slot in slots if slot.path is not None]
        self._starts = {
            slot.path: remembered.attribute(source.module, slot.path)
            for slot in self._attributes
            if slot.path
        }
        self._memory: Tensors = {}
        self.rows = rows
        self.reset()

    def reset(self, mask: Array | None = None) -> None:
        """Memory back to its initial value, in all rows or in some."""
        begin = getattr(self._composed.module, "begin", None)
        if begin is not None:
            begin(
                torch.ones(self.rows, dtype=torch.bool) if mask is None else torch.as_tensor(mask)
            )
        if mask is None or mask.all():
            self._reset_all()
            return
        current = self.memory_tensors()
        for memory in self._signature.memory:
            fresh = torch.from_numpy(memory.fresh(self.rows))
            rows = memory.rows(torch.from_numpy(mask))
            current[memory.name] = current[memory.name].clone()
            current[memory.name][rows] = fresh[rows]
        remembered.inserted(tuple(self._attributes), self._composed.module, current)
        self._memory = {name: current[name] for name in self._memory}

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs of one native call."""
        tensors = {name: torch.from_numpy(np.array(value)) for name, value in inputs.items()}
        with explained(self._composed.source), torch.no_grad():
            outputs, after = self._composed(tensors, self._memory)
        self._memory = {name: after[name] for name in self._memory}
        return {name: value.numpy().copy() for name, value in outputs.items()}

    @property
    def memory(self) -> dict[str, Array]:
        return {name: value.numpy().copy() for name, value in self.memory_tensors().items()}

    def memory_tensors(self) -> Tensors:
        held = remembered.attributes(tuple(self._attributes), self._composed.module)
        return {name: value.detach() for name, value in (self._memory | held).items()}

    def _reset_all(self) -> None:
        fresh = {m.name: torch.from_numpy(m.fresh(self.rows)) for m in self._signature.memory}
        remembered.inserted(tuple(self._attributes), self._composed.module, fresh)
        for path, start in self._starts.items():
            if start is None:
                remembered.set_attribute(self._composed.module, path, None)
        inside = {port for slot in self._attributes for port in slot.ports}
        self._memory = {name: value for name, value in fresh.items() if name not in inside}


class Subject(Protocol):
    """What an artifact is made from and compared with: a module, or a whole environment."""

    @property
    def rows(self) -> int | None:
        """The one number of rows it can be stepped with; None where any will do."""

    def draw(
        self, signature: Signature, rng: np.random.Generator, *, steps: int, rows: int
    ) -> dict[str, Array]:
        """Input values worth trying: port name → (steps, *shape)."""

    def original(self, signature: Signature, *, rows: int) -> AbstractContextManager[Steps]:
        """The live thing, ready to step; it comes back as it was when the block ends."""


class Steps(Protocol):
    """A live original: reset it, step it, look at its memory."""

    def reset(self, mask: Array | None = None) -> None: ...

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]: ...

    @property
    def memory(self) -> dict[str, Array]: ...


@dataclass(frozen=True, slots=True, eq=False)
class ModuleSubject:
    """A module, as its source describes it."""

    source: Source

    @property
    def rows(self) -> int | None:
        return self.source.batch

    def draw(
        self, signature: Signature, rng: np.random.Generator, *, steps: int, rows: int
    ) -> dict[str, Array]:
        return draw(signature, rng, steps=steps, rows=rows)

    @contextmanager
    def original(self, signature: Signature, *, rows: int) -> Iterator[Original]:
        with borrowed(self.source):
            yield Original(self.source, signature, rows)

    def before_choice(self) -> ModuleSubject | None:
        """The module before it chooses among actions: it gives logits; None if it never does."""
        if not any(isinstance(step, (Argmax, MultiDiscrete)) for step in self.source.steps):
            return None
        # The steps that change logits come first; from the choice on, they are left out.
        steps = itertools.takewhile(
            lambda step: not isinstance(step, (Argmax, MultiDiscrete)), self.source.steps
        )
        return ModuleSubject(dataclasses.replace(self.source, action=tuple(steps)))

    def remarks(self, signature: Signature) -> tuple[Finding, ...]:
        """What is exported right, and may still not be meant."""
        from roadworthy.capture.remarks import remarks  # reads sources, as this module does

        return tuple(remarks(self.source, signature))

    def undecided(self, signature: Signature, model: bytes) -> tuple[Any, Subject] | None:
        """The artifact and the original as they are before they choose, if they choose."""
        from roadworthy.capture.undecided import undecided  # needs onnx

        behind = undecided(self.source, signature, model)
        return None if behind is None else (behind, ModuleSubject(behind.source))

    def suspects(self, recipe: Mapping[str, Any]) -> Iterator[Any]:
        """The original with one mistake in it, one mistake after another."""
        from roadworthy.capture.suspects import suspects  # steps originals itself

        return suspects(self.source, recipe)

    def absent_weights(self, model: bytes) -> tuple[list[str], int]:
        """The weights whose values are not in the file `model`, and how many there are."""
        from roadworthy.capture.fingerprint import absent_weights  # only when something failed

        return absent_weights(self.source.module, model)


def record(subject: Subject, signature: Signature, *, seed: int) -> Trace:
    """Golden steps of the original: several episodes, resets in the middle, extreme values."""
    rng = np.random.default_rng(seed)
    rows = subject.rows or TRACE_ROWS
    inputs = subject.draw(signature, rng, steps=TRACE_STEPS, rows=rows)
    resets = draw_resets(signature, rng, steps=TRACE_STEPS, rows=rows)
    outputs: dict[str, list[Array]] = {port.name: [] for port in signature.outputs}
    with subject.original(signature, rows=rows) as live:
        for step in range(TRACE_STEPS):
            if resets[step].any():
                live.reset(resets[step])
            result = live.step({name: array[step] for name, array in inputs.items()})
            for name, values in outputs.items():
                values.append(result[name])
    stacked = {name: np.stack(values) for name, values in outputs.items()}
    return Trace(inputs=inputs, outputs=stacked, resets=resets)


def draw_resets(signature: Signature, rng: np.random.Generator, *, steps: int, rows: int) -> Array:
    """Which rows begin an episode at which step: all at the first, then each at its own time."""
    resets: Array = rng.random((steps, rows)) < 1 / EPISODE_STEPS
    resets[0] = True
    resets[steps // 2] = True
    if signature.clock and not signature.fixed_rows:
        # The clock is the same for all rows: single rows are reset only when all decide.
        decides = np.arange(steps) % signature.decimation == 0
        resets &= decides[:, None]
    # Where the number of rows is fixed they are reset together.
    return (
        resets.any(axis=1, keepdims=True).repeat(rows, axis=1) if signature.fixed_rows else resets
    )


def _slot(source: Source, signature: Signature, name: str) -> remembered.Slot:
    """The slot as the signature knows it: an attribute may hold None until the first step."""
    declared = source.memory[name]
    if not isinstance(declared, Attribute):
        return remembered.slot(name, None, declared)
    ports = [m.name for m in signature.memory if m.name == name or m.name.startswith(f"{name}.")]
    if not ports:
        raise UsageError(f"the bundle has no memory {name!r}", where="memory")
    layout: Layout = name if ports == [name] else _nested(name, ports)
    return remembered.Slot(name, declared.path, layout)


def _nested(name: str, ports: list[str]) -> Layout:
    keys = [port.removeprefix(f"{name}.") for port in ports]
    if all(key.isdigit() for key in keys):
        return list(ports)
    return dict(zip(keys, ports, strict=True))
