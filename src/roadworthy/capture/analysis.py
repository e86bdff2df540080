"""Analysing a live module: names, shapes, memory, and that nothing hides in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial

import torch

from roadworthy.capture import memory as remembered
from roadworthy.capture import probe
from roadworthy.capture.call_style import call_style
from roadworthy.capture.compose import ComposedPolicy, PureStep
from roadworthy.capture.memory import Slot, Tensors
from roadworthy.capture.source import Attribute, Source
from roadworthy.capture.stages import declared_slots
from roadworthy.capture.state.fast_path import refuse_other_path
from roadworthy.capture.state.ports import refuse_plain_state, refuse_swapped_memory
from roadworthy.capture.state.refusing import refuse_state
from roadworthy.capture.state.resets import refuse_resets
from roadworthy.capture.state.starts import declaration_of, made_at_first, refuse_other_start
from roadworthy.capture.state.threads import refuse_threads
from roadworthy.capture.state.ties import refuse_cut_ties
from roadworthy.errors import ExportError, Finding, UsageError
from roadworthy.inspection.first_call import FirstCall
from roadworthy.inspection.reach import root
from roadworthy.inspection.snapshot import preserved
from roadworthy.spec.port import BATCH, About, Port
from roadworthy.spec.signature import Action, Signature
from roadworthy.spec.transforms import ActionStep, Argmax, Clip, MultiDiscrete, ScaleToBounds

TRACED_ROWS = 3
# What fails with other rows than the example's, or after a call that had others.
_BY_ROWS = ("RW101", "RW102")


class ModuleAnalysis:
    """What experiments on the live module tell: names, shapes, memory, and that nothing hides.

    Must be made, and used, inside `export_mode`. `assume_pure` leaves out the search for state.
    """

    def __init__(self, source: Source, *, assume_pure: bool = False) -> None:
        self.source = source
        _refuse_bad_axes(source)
        if not assume_pure:
            refuse_threads(source.module)
        self.slots, self.initial = self._memory_slots()
        arguments = [slot.name for slot in self.slots if slot.path is None]
        refuse_swapped_memory(source, arguments)
        self.composed = ComposedPolicy(source, call_style(source, arguments), self.slots)
        first = None if assume_pure else FirstCall([root("", source.module)])
        with nullcontext() if first is None else first.watching():
            self.example = self._example()
            self.step = PureStep(self.composed, self._output_names())
        try:
            self.memory_axes, self.memory_rows = self._memory_rows()
            inputs, memory = self.sized({}), self.fresh_memory({})
            probe.refuse_randomness(self.step, inputs, memory)
        except ExportError as error:
            if first is not None:
                first.undone(partial(self._refuse_left_behind, error))
            raise
        if not assume_pure:
            with preserved(source.module):
                results = probe.run(self.step, inputs, memory)
            outputs = dict(zip(self.step.outputs, results, strict=False))
            refuse_plain_state(source, inputs, outputs)
            refuse_other_start(self.composed, self.memory_rows, self._works_with)
            refuse_resets(self.composed, inputs, memory, self.memory_rows)
            refuse_state(self.composed, inputs, memory, self._works_with)
            rows = next(iter(self.example.values())).shape[0]
            start = probe.expanded(self.memory_rows, self.memory_axes, rows)
            refuse_cut_ties(self.composed, self.example, start)
            refuse_other_path(self.composed, self.example, start)
        works = None if assume_pure else self._works_with
        probe.refuse_unseen_state(self.step, inputs, memory, works)
        self.signature = self._signature()

    def _refuse_left_behind(self, error: ExportError) -> None:
        """A better error where what differs can be named, or has the rows of the example."""
        example, memory = self.example, self._given_memory()
        if all(each.code == "RW112" for each in error.findings):
            refuse_state(self.composed, example, memory, self._works_with)
        if any(each.code not in _BY_ROWS for each in error.findings):
            return
        call = partial(probe.call_natively, self.composed, example, memory)
        known = [each.path for each in self.slots]
        places = made_at_first(self.source.module, call)
        places = [each for each in places if each.partition("[")[0] not in known]
        said = declaration_of(places, self._works_with)
        if said:
            raise ExportError(
                "a call leaves it behind for the next one, with the rows of the example",
                code="RW112",
                where=f"{type(self.source.module).__name__}.{places[0]}",
                hint=f"declare what persists: {said}",
            ) from error
        if not any("memory=" in (each.hint or "") for each in error.findings):
            refuse_state(self.composed, example, memory, self._works_with)

    def _works_with(self, more: Mapping[str, Attribute]) -> ModuleAnalysis | None:
        """The analysis with more memory declared; None where that cannot be."""
        memory = {**self.source.memory, **more}
        try:
            with preserved(self.source.module):
                return ModuleAnalysis(
                    dataclasses.replace(self.source, memory=memory), assume_pure=True
                )
        except Exception:  # whatever the user's code does with a memory that has other rows
            return None

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
        for name in self.source.memory:
            if name in self.source.example:
                raise UsageError(
                    f"{name!r} is in the example and in memory=",
                    where="memory",
                    hint="leave it out of the example: the policy feeds its memory back itself",
                )
        slots, initial = declared_slots(self.source)
        for port, value in initial.items():
            if value.is_complex():
                kind = str(value.dtype).removeprefix("torch.")
                raise ExportError(
                    f"a port cannot have dtype {kind}",
                    code="RW022",
                    where=port,
                    hint="keep its parts: torch.view_as_real(x), and torch.view_as_complex where "
                    "it is used",
                )
            if not value.isfinite().all():
                raise UsageError(
                    "the initial value of the memory is NaN or infinite",
                    code="RW024",
                    where=port,
                    hint="start from finite values, most often zeros",
                )
        return slots, initial

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
                    hint="pass at least one row"
                    if tensor.shape[0] == 0
                    else "an input without elements tells the policy nothing: leave it out of the "
                    f"example, and {_without(name, [each for each in example if each != name])}",
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
        numbers = {port for each in self.slots for port in each.numbers}
        started = self.composed.started
        if self.source.batch or not self.initial:
            rows = {n: v.reshape(()) if n in numbers else v for n, v in self.initial.items()}
            if started:
                rows[started] = torch.zeros((), dtype=torch.bool)
            return dict.fromkeys(rows), rows
        initial = self.initial
        if started:
            initial = initial | {started: torch.zeros(1, dtype=torch.bool)}
        found = probe.batch_axes(self.step, initial, self.example)
        self.slots = self.composed.slots
        initial = remembered.carried(self.slots, initial)
        rows = {name: remembered.one_row(name, v, found[name]) for name, v in initial.items()}
        axes: dict[str, int | None] = {name: max(axis, 0) for name, axis in found.items()}
        self.composed.memory_axes = axes
        return axes, rows

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
            frame_skip=self.source.frame_skip,
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


def _without(name: str, others: list[str]) -> str:
    """A method that gives an input without elements to the policy by itself."""
    others = others or ["obs"]
    if not all(map(str.isidentifier, [name, *others])):  # parts of a dict, "obs.pose"
        return f"give the module {others[0]!r}[:, :0] in its place"
    passed = ", ".join(f"{each}={each}" for each in others)
    return f"method=lambda m, {', '.join(others)}: m({passed}, {name}={others[0]}[:, :0])"
