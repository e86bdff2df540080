"""A module as an original: stepped in eager PyTorch, as its user steps it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from roadworthy.capture import memory as remembered
from roadworthy.capture.call_style import call_style
from roadworthy.capture.compose import ComposedPolicy
from roadworthy.capture.export_mode import export_mode
from roadworthy.capture.failures import run_failure
from roadworthy.capture.forms import copied
from roadworthy.capture.memory import Tensors
from roadworthy.capture.program import Program
from roadworthy.capture.source import Rewriting, Source
from roadworthy.capture.stages import slots_of
from roadworthy.errors import Finding, RoadworthyError, UsageError
from roadworthy.spec.port import Array
from roadworthy.spec.run import Arrays, Choosing
from roadworthy.spec.samples import draw
from roadworthy.spec.sampling import Sampling
from roadworthy.spec.signature import Signature
from roadworthy.verification.originals.acting_weights import acting_weights
from roadworthy.verification.originals.advisories import advisories
from roadworthy.verification.originals.choosing import watched
from roadworthy.verification.originals.exact import yardstick
from roadworthy.verification.originals.forgetting import forgetting
from roadworthy.verification.originals.graph_values import graph_values
from roadworthy.verification.originals.mutants import Mistake, mistakes
from roadworthy.verification.originals.original import Mutant, Original, TorchValue, Yardstick
from roadworthy.verification.originals.unanswered import without_unanswered
from roadworthy.verification.originals.unapplied import left_beside, unapplied

# Shorter vectors are often folded into their neighbours when a graph is optimised.
FEWEST_VALUES = 8


class ModuleSteps:
    """The caller's module in eager PyTorch: the truth that an artifact is compared with.

    A module that keeps its memory in attributes keeps it there: nothing is substituted.
    """

    def __init__(
        self,
        source: Source,
        signature: Signature,
        rows: int,
        slots: tuple[remembered.Slot, ...] | None = None,
    ) -> None:
        slots = slots_for(source, signature) if slots is None else slots
        arguments = [slot.name for slot in slots if slot.path is None]
        self._composed = ComposedPolicy(source, call_style(source, arguments), slots)
        self._signature = signature
        self._attributes = [slot for slot in slots if slot.path is not None]
        self._starts = {
            str(slot.path): copied(remembered.attribute(source.module, str(slot.path)))
            for slot in self._attributes
        }
        self._memory: Tensors = {}
        self.rows = rows
        self.reset()

    def reset(self, mask: Array | None = None) -> None:
        """Memory back to its initial value, in all rows or in some."""
        if mask is None or mask.all():
            self._reset_all()
            return
        current = self.memory_tensors()
        for memory in self._signature.memory:
            fresh = torch.from_numpy(memory.fresh(self.rows))
            rows = memory.rows(torch.from_numpy(mask))
            current[memory.name] = current[memory.name].clone()
            current[memory.name][rows] = fresh[rows]
        remembered.insert_attributes(tuple(self._attributes), self._composed.module, current)
        self._memory = {name: current[name] for name in self._memory}

    def step(self, inputs: Mapping[str, Array]) -> Arrays:
        """The outputs of one native call."""
        tensors = {name: torch.from_numpy(np.array(value)) for name, value in inputs.items()}
        outputs, after = self._called(tensors, self._memory)
        self._memory = {name: after[name] for name in self._memory}
        return {name: value.numpy().copy() for name, value in outputs.items()}

    def _called(self, inputs: Tensors, memory: Tensors) -> tuple[Tensors, Tensors]:
        try:
            with torch.no_grad():
                outputs, after = self._composed(inputs, memory)
        except RoadworthyError:
            raise
        except Exception as error:
            raise run_failure(error, self._composed.source) from error
        return outputs, after

    @property
    def memory(self) -> Arrays:
        return {name: value.numpy().copy() for name, value in self.memory_tensors().items()}

    def memory_tensors(self) -> Tensors:
        module = self._composed.module
        # What is None until the first step stands for the initial value.
        made = [each for each in self._attributes if self._made(each)]
        held = self._fresh() | remembered.read_attributes(tuple(made), module)
        return {name: value.detach() for name, value in (held | self._memory).items()}

    def _made(self, slot: remembered.Slot) -> bool:
        held = remembered.attribute(self._composed.module, str(slot.path))
        return remembered.alike(held, slot.form.template)

    def _fresh(self) -> Tensors:
        return {m.name: torch.from_numpy(m.fresh(self.rows)) for m in self._signature.memory}

    def _reset_all(self) -> None:
        fresh = self._fresh()
        remembered.insert_attributes(tuple(self._attributes), self._composed.module, fresh)
        for slot in self._attributes:
            start = self._starts[str(slot.path)]
            if not remembered.alike(start, slot.form.template):
                remembered.set_attribute(self._composed.module, str(slot.path), copied(start))
        inside = {port for slot in self._attributes for port in slot.ports}
        self._memory = {name: value for name, value in fresh.items() if name not in inside}


@dataclass(frozen=True, slots=True, eq=False)
class ModuleOriginal(Original):
    """A module, as its source describes it; `program` is its capture, where there is one."""

    source: Source
    program: Program | None = field(default=None, kw_only=True)

    @property
    def rows(self) -> int | None:
        return self.source.batch

    def draw(
        self,
        signature: Signature,
        rng: np.random.Generator,
        *,
        steps: int,
        rows: int,
        sampling: Sampling,
    ) -> Arrays:
        return draw(signature, rng, steps=steps, rows=rows, sampling=sampling)

    def tried(self, signature: Signature, sampling: Sampling) -> Sampling:
        return without_unanswered(self, signature, sampling)

    @contextmanager
    def open(self, signature: Signature, *, rows: int) -> Iterator[ModuleSteps]:
        with export_mode(self.source):
            yield module_steps(self.source, signature, rows)

    def yardstick(self, signature: Signature) -> Yardstick | None:
        return yardstick(self.source, self.program, signature)

    def advisories(self, signature: Signature) -> Sequence[Finding]:
        fresh = {m.name: torch.from_numpy(m.fresh(self._example_rows)) for m in signature.memory}
        with export_mode(self.source):
            slots = slots_for(self.source, signature)
            held = (
                *unapplied(self.source, slots, fresh),
                *forgetting(self.source, slots, fresh),
            )
        notes = self.source.rewritten.notes if self.source.rewritten else ()
        said = (*advisories(self.source, signature), *held, *left_beside(self.source), *notes)
        return (*said, *compared_with(self.source))

    @property
    def _example_rows(self) -> int:
        return int(next(iter(self.source.tensors.values())).shape[0])

    def mutants(self, recipe: Mapping[str, Any]) -> Iterator[Mutant]:
        for mistake in mistakes(self.source, recipe):
            yield Mutant(
                what=mistake.what,
                hint=mistake.hint,
                where=mistake.where,
                open=partial(_opened, mistake),
            )

    def weights(self, signature: Signature) -> Mapping[str, Array]:
        large = {
            name: value
            for name, value in self.source.module.named_parameters()
            if value.ndim > 1 and value.numel() >= FEWEST_VALUES
        }
        with export_mode(self.source):
            acting = acting_weights(self, signature, large)
        return {name: large[name].detach().cpu().double().numpy() for name in acting}

    def graph_values(
        self, signature: Signature, inputs: Mapping[str, Array], memory: Mapping[str, Array]
    ) -> Mapping[str, TorchValue]:
        return graph_values(self.source, signature, inputs, memory)


@contextmanager
def _opened(mistake: Mistake, signature: Signature, rows: int) -> Iterator[ModuleSteps]:
    with export_mode(mistake.source), mistake.applied():
        yield module_steps(mistake.source, signature, rows)


class RewrittenSteps(ModuleSteps):
    """The framework's own module, which is told where episodes begin."""

    def __init__(
        self, source: Source, rewriting: Rewriting, signature: Signature, rows: int
    ) -> None:
        self._begin = rewriting.begin
        truth = rewriting.alone or replace(source, module=rewriting.module)
        super().__init__(truth, signature, rows)

    def reset(self, mask: Array | None = None) -> None:
        if self._begin is not None:
            everyone = torch.ones(self.rows, dtype=torch.bool)
            self._begin(everyone if mask is None else torch.as_tensor(mask))
        super().reset(mask)


@dataclass(frozen=True, slots=True, eq=False)
class RewrittenOriginal(ModuleOriginal):
    """A policy that an adapter rewrote to capture it: the truth is what it was rewritten from."""

    rewriting: Rewriting

    @contextmanager
    def open(self, signature: Signature, *, rows: int) -> Iterator[ModuleSteps]:
        with export_mode(self.source):
            yield RewrittenSteps(self.source, self.rewriting, signature, rows)

    def open_choosing(self, signature: Signature, *, rows: int) -> AbstractContextManager[Choosing]:
        if self.rewriting.alone is None:
            return Original.open_choosing(self, signature, rows=rows)
        # A framework may choose by probabilities: the logits are those of the rebuilt network.
        return watched(ModuleOriginal.open(self, signature, rows=rows))

    def caveats(self) -> Sequence[Finding]:
        return self.rewriting.caveats


def compared_with(source: Source) -> Sequence[Finding]:
    """What a checkpoint's artifact is compared with: the framework, or the rebuilt actor."""
    if source.origin is None:
        return ()
    framework, reason = source.origin["framework"], source.origin.get("not_asked")
    hint = f"where {framework} is installed and the file is trusted: --trust (trust=True)"
    if source.rewritten:
        what, hint = f"compared with {framework}'s own predict, step by step", ""
    else:
        what = f"compared with the actor that was rebuilt from the file, not with {framework}"
        if reason:
            what, hint = f"{what}: {reason}", "pass the live policy: rw.verify(folder, against=…)"
    return [Finding(code="RW186", severity="note", what=what, hint=hint)]


def original_of(source: Source, program: Program | None = None) -> ModuleOriginal:
    """What an artifact of this source is compared with; `program` saves capturing it again."""
    if source.rewritten is None:
        return ModuleOriginal(source, program=program)
    return RewrittenOriginal(source, source.rewritten, program=program)


def module_steps(source: Source, signature: Signature, rows: int) -> ModuleSteps:
    """The live module: all rows in one call, or each alone where it keeps its state for one."""
    from roadworthy.verification.originals.row_steps import (
        RowSteps,  # which is a kind of ModuleSteps
    )

    slots = slots_for(source, signature)
    alone = any(_is_for_one_row(slot, signature) for slot in slots)
    return (RowSteps if alone else ModuleSteps)(source, signature, rows, slots)


def _is_for_one_row(slot: remembered.Slot, signature: Signature) -> bool:
    axes = {memory.name: len(memory.shape) for memory in signature.memory}
    return (
        slot.start is not None
        or bool(slot.numbers)
        or any(axes[leaf.port] != leaf.axes + bool(leaf.each) for leaf in slot.form.leaves)
    )


def slots_for(source: Source, signature: Signature) -> tuple[remembered.Slot, ...]:
    """The declared memories, which must be those of the signature."""
    slots = slots_of(source)
    known = {memory.name for memory in signature.memory}
    for slot in slots:
        if not known.issuperset(slot.ports):
            raise UsageError(
                f"the bundle has no memory {slot.name!r}",
                where="memory",
                hint="pass the Source that the bundle was exported from, or export again",
            )
    return remembered.with_grouped(slots, _grouped(slots, signature))


def _grouped(slots: Sequence[remembered.Slot], signature: Signature) -> dict[str, int]:
    """How many rows an argument has for each row of the batch, where that is several."""
    shapes = {memory.name: memory.shape for memory in signature.memory}
    return {
        leaf.port: int(shapes[leaf.port][1])
        for slot in slots
        if slot.path is None  # a module that keeps such rows itself is called row by row
        for leaf in slot.form.leaves
        if len(shapes[leaf.port]) == leaf.axes + 1
    }
