"""Analysing a live module: names, shapes, memory, and that nothing hides in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch

from roadworthy.capture import memory as remembered
from roadworthy.capture import probe
from roadworthy.capture.call_style import call_style
from roadworthy.capture.compose import ComposedPolicy, PureStep
from roadworthy.capture.memory import Slot, Tensors, slot
from roadworthy.capture.snapshot import preserved
from roadworthy.capture.state.ports import refuse_plain_state, refuse_swapped_memory
from roadworthy.capture.state.refusing import refuse_state
from roadworthy.capture.state.resets import refuse_resets
from roadworthy.errors import ExportError, Finding, UsageError
from roadworthy.source import Attribute, Source
from roadworthy.spec.layout import unpack
from roadworthy.spec.port import BATCH, About, Port
from roadworthy.spec.signature import Action, Signature
from roadworthy.spec.transforms import ActionStep, Argmax, Clip, MultiDiscrete, ScaleToBounds

TRACED_ROWS = 3


class ModuleAnalysis:
    """What experiments on the live module tell: names, shapes, memory, and that nothing hides.

    Must be made, and used, inside `export_mode`. `assume_pure` leaves out the search for state.
    """

    def __init__(self, source: Source, *, assume_pure: bool = False) -> None:
        self.source = source
        _refuse_bad_axes(source)
        self.slots, self.initial = self._memory_slots()
        arguments = [slot.name for slot in self.slots if slot.path is None]
        refuse_swapped_memory(source, arguments)
        self.composed = ComposedPolicy(source, call_style(source, arguments), self.slots)
        self.example = self._example()
        self.step = PureStep(self.composed, self._output_names())
        self.memory_axes, self.memory_rows = self._memory_rows()
        inputs, memory = self.sized({}), self.fresh_memory({})
        probe.refuse_randomness(self.step, inputs, memory)
        if not assume_pure:
            with preserved(source.module):
                results = probe.run(self.step, inputs, memory)
            outputs = dict(zip(self.step.outputs, results, strict=False))
            refuse_plain_state(source, inputs, outputs)
            refuse_resets(self.composed, inputs, memory, self.memory_rows)
            refuse_state(self.composed, inputs, memory, self._works_with)
        probe.refuse_unseen_state(self.step, inputs, memory)
        self.signature = self._signature()

    def _works_with(self, name: str, path: str) -> bool:
        """Whether the attribute at `path` can be declared as memory."""
        memory = {**self.source.memory, name: Attribute(path, initial="current")}
        try:
            with preserved(self.source.module):
                ModuleAnalysis(dataclasses.replace(self.source, memory=memory), assume_pure=True)
        except Exception:  # whatever the user's code does with a memory that has other rows
            return False
        return True

    @property
    def symbols(self) -> list[str]:
        extra = [name for axes in self.source.dynamic.values() for name in axes.values()]
        return list(dict.fromkeys([*([] if self.source.batch else [BATCH]), *extra]))

    def sized(self, grown: Mapping[str, int]) -> Tensors:
        """The example at the traced size, each symbol made larger by `grown`."""
        rows = self.source.batch or TRACED_ROWS + grown.get(BATCH, 0)
        sizes: dict[str, dict[int, int]] = {}
        for name, tensor in self.example.items():
            axes = self.source.dynamic.get(name, {})
            sizes[name] = {0: rows} | {
                axis: max(tensor.shape[axis], 2) + grown.get(symbol, 0)
                for axis, symbol in axes.items()
            }
        return probe.resized(self.example, sizes)

    def fresh_memory(self, grown: Mapping[str, int]) -> Tensors:
        rows = self.source.batch or TRACED_ROWS + grown.get(BATCH, 0)
        return probe.expanded(self.memory_rows, self.memory_axes, rows)

    def _memory_slots(self) -> tuple[tuple[Slot, ...], Tensors]:
        """The declared memories, and where each of their ports starts."""
        module, declared = self.source.module, self.source.memory
        for name in declared:
            if name in self.source.example:
                raise UsageError(
                    f"{name!r} is in the example and in memory=",
                    where="memory",
                    hint="leave it out of the example: the policy feeds its memory back itself",
                )
        slots = {n: slot(n, None, v) for n, v in declared.items() if not isinstance(v, Attribute)}
        initial: Tensors = {}
        for name, each in slots.items():
            initial |= {p: v.detach().cpu() for p, v in unpack(each.layout, declared[name]).items()}
        kept = {n: v for n, v in declared.items() if isinstance(v, Attribute)}
        held = {name: remembered.attribute(module, each.path) for name, each in kept.items()}
        made = held if None not in held.values() else self._after_one_call(slots, initial, kept)
        for name, place in kept.items():
            slots[name] = slot(name, place.path, made[name])
            initial |= remembered.attribute_start(place, name, held[name], made[name])
        for port, value in initial.items():
            if not value.isfinite().all():
                raise UsageError(
                    "the initial value of the memory is NaN or infinite",
                    code="RW024",
                    where=port,
                    hint="start from finite values, most often zeros",
                )
        ordered = tuple(slots[name] for name in declared)
        # In the order of the slots, which is that of the results of a step.
        return ordered, {port: initial[port] for each in ordered for port in each.ports}

    def _after_one_call(
        self, slots: Mapping[str, Slot], initial: Tensors, kept: Mapping[str, Attribute]
    ) -> dict[str, Any]:
        """What the attributes hold after a call: it shows the shape of those that were None."""
        source = self.source
        composed = ComposedPolicy(source, call_style(source, list(slots)), tuple(slots.values()))
        with preserved(source.module):
            probe.call_natively(composed, source.tensors, initial)
            return {n: remembered.attribute(source.module, a.path) for n, a in kept.items()}

    def _example(self) -> Tensors:
        example = self.source.tensors
        scalars = [name for name, tensor in example.items() if tensor.ndim == 0]
        if scalars:
            raise UsageError(
                "the example has no batch axis", where=scalars[0], hint=f"pass {scalars[0]}[None]"
            )
        for name, tensor in example.items():
            if tensor.numel() == 0:
                raise UsageError(
                    f"the example is empty: its shape is {tuple(tensor.shape)}",
                    where=name,
                    hint="pass at least one row",
                )
        for mask in self.source.masks:
            if mask not in example:
                example[mask] = self._mask(example)
        return example

    def _mask(self, example: Tensors) -> torch.Tensor:
        """An example for a mask that only the action steps read: as wide as the logits."""
        return torch.ones(self._logits(example).shape, dtype=torch.bool)

    def _action(self) -> Action | None:
        choices = int(self._logits(self.example).shape[-1])
        return _action(self.step.outputs[0], self.source.steps, choices)

    def _logits(self, example: Tensors) -> torch.Tensor:
        """What the module itself returns first, before any action step."""
        bare = dataclasses.replace(self.source, action=())
        composed = ComposedPolicy(bare, self.composed.calling, self.slots)
        with preserved(self.source.module):
            return next(iter(probe.call_natively(composed, example, self._given_memory()).values()))

    def _given_memory(self) -> Tensors:
        """Memory that is passed as arguments; attributes are left to the module."""
        inside = {port for each in self.slots if each.path is None for port in each.ports}
        return {name: value for name, value in self.initial.items() if name in inside}

    def _output_names(self) -> list[str]:
        with preserved(self.source.module):
            outputs = probe.call_natively(self.composed, self.example, self._given_memory())
        if not outputs:
            raise UsageError("outputs= leaves every output out", hint="name at least one")
        return list(outputs)

    def _memory_rows(self) -> tuple[dict[str, int | None], Tensors]:
        """The batch axis of each memory, and the initial value of one row."""
        if self.source.batch or not self.initial:
            return dict.fromkeys(self.initial), self.initial
        axes = probe.batch_axes(self.step, self.initial, self.example)
        rows = {name: remembered.one_row(name, v, axes[name]) for name, v in self.initial.items()}
        return dict(axes), rows

    def _signature(self) -> Signature:
        shapes = probe.symbolic_shapes(self.step, self.sized, self.fresh_memory, self.symbols)
        inputs, memory = self.sized({}), self.fresh_memory({})
        results = probe.run(self.step, inputs, memory)
        _refuse_unknown(self.source, [*inputs, *self.step.outputs])
        outputs = tuple(
            _port(name, result, shape, self.source.about)
            for name, result, shape in zip(self.step.outputs, results, shapes, strict=False)
        )
        if not self.source.batch:
            _refuse_without_batch(outputs)
        return Signature(
            inputs=tuple(self._input_port(name, tensor) for name, tensor in inputs.items()),
            outputs=outputs,
            memory=tuple(
                remembered.memory_port(name, self.memory_rows[name], self.memory_axes[name])
                for name in self.composed.memory_names
            ),
            action=(self._action() if self.source.steps else None) or self.source.meaning,
            period_s=self.source.period_s,
        )

    def _input_port(self, name: str, tensor: torch.Tensor) -> Port:
        shape: list[int | str] = list(tensor.shape)
        if not self.source.batch:
            shape[0] = BATCH
        for axis, symbol in self.source.dynamic.get(name, {}).items():
            shape[axis] = symbol
        return _port(name, tensor, tuple(shape), self.source.about)


def _port(
    name: str, tensor: torch.Tensor, shape: tuple[int | str, ...], about: Mapping[str, About]
) -> Port:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return Port(name=name, dtype=dtype, shape=shape, about=about.get(name, About()))


def _refuse_bad_axes(source: Source) -> None:
    tensors = source.tensors
    for name, axes in source.dynamic.items():
        for axis, symbol in axes.items():
            if name in tensors and not 0 < axis < tensors[name].ndim:
                raise UsageError(
                    f"axis {axis} cannot be dynamic: the example has {tensors[name].ndim} axes",
                    where=f"dynamic {name!r}",
                    hint="axes are counted from 0, and axis 0 is the batch, which is dynamic by "
                    "itself",
                )
            if not symbol.isidentifier() or symbol == BATCH:
                raise UsageError(
                    f"{symbol!r} cannot name a dynamic axis",
                    where=f"dynamic {name!r}",
                    hint="use a word such as 'length'; 'batch' is taken",
                )


def _refuse_unknown(source: Source, ports: list[str]) -> None:
    for field in ("about", "dynamic"):
        for name in getattr(source, field):
            if name not in ports:
                raise UsageError(
                    f"there is no port {name!r}", where=field, hint=f"ports: {', '.join(ports)}"
                )


def _refuse_without_batch(outputs: tuple[Port, ...]) -> None:
    findings = [
        Finding(
            code="RW113",
            where=port.name,
            what=f"shape {port.shape} stays the same for every batch: it mixes rows, or is "
            "constant",
            hint="return one row for each row of the input, or put None in its place in "
            "outputs=(…)",
        )
        for port in outputs
        if BATCH not in port.shape
    ]
    if findings:
        raise ExportError(findings=findings)


def _action(output: str, steps: tuple[ActionStep, ...], choices: int) -> Action | None:
    if not steps:
        return None
    match steps[-1]:
        case Argmax(table=table):
            return Action(output=output, kind="discrete", sizes=(choices,), table=table)
        case MultiDiscrete(sizes=sizes):
            return Action(output=output, kind="multi_discrete", sizes=sizes)
        case ScaleToBounds(low=low, high=high) | Clip(low=low, high=high):
            return Action(output=output, kind="continuous", low=low, high=high)
        case _:
            return Action(output=output, kind="continuous")
