"""The policy as one module: normaliser, network, action steps, memory in and out."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from roadworthy.capture import transforms
from roadworthy.capture.call_style import CallStyle
from roadworthy.capture.memory import (
    Slot,
    Tensors,
    attribute,
    insert_attributes,
    read_attributes,
    set_attribute,
)
from roadworthy.capture.results import split_result
from roadworthy.capture.source import STARTED, Source
from roadworthy.capture.state.ports import (
    refuse_misplaced_memory,
    refuse_returned_twin,
    versions,
)
from roadworthy.errors import ExportError, UsageError
from roadworthy.errors.lines import return_line
from roadworthy.spec.layout import layout_of, pack, unpack
from roadworthy.spec.transforms import Argmax, MultiDiscrete


class ComposedPolicy(nn.Module):
    """`(inputs, memory) → (outputs, memory)` around the caller's module, by name."""

    def __init__(self, source: Source, calling: CallStyle, slots: tuple[Slot, ...]) -> None:
        super().__init__()
        self.module = source.module
        self.source = source
        self.calling = calling
        self.slots = slots
        normalizers = source.normalizers()
        self.normalized = tuple(normalizers)
        self.normalizers = nn.ModuleList(transforms.normalizer(n) for n in normalizers.values())
        self.steps = nn.ModuleList(transforms.action_step(step) for step in source.steps)
        # Where each memory has its batch axis, as far as it is known.
        self.memory_axes: dict[str, int | None] = {}

    @property
    def input_names(self) -> list[str]:
        names = self.source.ports
        return [*names, *(mask for mask in self.source.masks if mask not in names)]

    @property
    def memory_names(self) -> list[str]:
        names = [port for slot in self.slots for port in slot.ports]
        return [*names, self.started] if self.started else names

    @property
    def started(self) -> str:
        """The memory that tells rows in their first step from others; empty where none need it."""
        if not any(slot.start for slot in self.slots):
            return ""
        taken = [port for slot in self.slots for port in slot.ports]
        return next(name for name in STARTED if name not in taken)

    def forward(self, inputs: Mapping[str, Tensor], memory: Tensors) -> tuple[Tensors, Tensors]:
        """One step. Attributes that `memory` does not hold are left to the module itself."""
        if not self.started or self.started not in memory:
            return self._once(inputs, memory, self.slots)
        begun = memory[self.started]
        later = self._once(_cloned(inputs), _cloned(memory), self.slots)
        starting = tuple(replace(slot, form=slot.start or slot.form) for slot in self.slots)
        with attributes_kept(self.module, self.slots):
            first = self._once(_cloned(inputs), _cloned(memory), starting)
        outputs = {
            name: where_rows(begun, value, first[0][name], 0) for name, value in later[0].items()
        }
        persisted = {
            name: where_rows(begun, value, first[1][name], self.memory_axes.get(name, 0))
            for name, value in later[1].items()
        }
        return outputs, persisted | {self.started: torch.ones_like(begun)}

    def _once(
        self, inputs: Mapping[str, Tensor], memory: Tensors, slots: tuple[Slot, ...]
    ) -> tuple[Tensors, Tensors]:
        """One call of the module, which finds its attributes as the slots say."""
        values = dict(inputs)
        for name, normalize in zip(self.normalized, self.normalizers, strict=True):
            values[name] = normalize(values[name])
        arguments = {
            name: values[layout] if isinstance(layout, str) else pack(layout, values)
            for name, layout in self.source.inputs.items()
        }
        in_arguments = [slot for slot in self.slots if slot.path is None]
        insert_attributes(slots, self.module, memory)
        fed = {slot.name: slot.form.pack(memory) for slot in in_arguments}
        before = versions(fed)
        result = self.calling.call(
            self.source.function, arguments, {**self.source.constants, **fed}
        )
        refuse_returned_twin(self.source, result)
        changed = dict(versions(fed).items() - before.items())
        refuse_misplaced_memory(self.source, result, in_arguments, memory, changed)
        returned, persisted = split_result(result, in_arguments)
        outputs = named_outputs(returned, self.source)
        held = read_attributes(self.slots, self.module)
        rows = next(iter(inputs.values())).shape[:1]
        # A number that a call sets anew is the same for every row.
        alone = {n for slot in self.slots for n in slot.numbers if n in memory and not held[n].ndim}
        fixed = self.source.batch is not None
        held |= {name: held[name].expand(() if fixed else rows) for name in alone}
        return self._acted(outputs, inputs), persisted | held

    def _acted(self, outputs: Tensors, inputs: Mapping[str, Tensor]) -> Tensors:
        if not self.steps:
            return outputs
        name, action = next(iter(outputs.items()))
        for step, module in zip(self.source.steps, self.steps, strict=True):
            masked = isinstance(step, (Argmax, MultiDiscrete)) and step.mask
            action = module(action, inputs[masked] if masked else None)
        return outputs | {name: action}


class PureStep(nn.Module):
    """The composed policy with positional tensors and no side effect: what is captured."""

    def __init__(self, composed: ComposedPolicy, outputs: Sequence[str]) -> None:
        super().__init__()
        self.composed = composed
        self.outputs = tuple(outputs)
        # Entered around each call of the caller's code: what looks on while it runs.
        self.watch: Callable[[], AbstractContextManager[None]] = nullcontext

    @contextmanager
    def watched(self, watch: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
        """Calls inside of the block are looked at; what torch does around them is not."""
        self.watch = watch
        try:
            yield
        finally:
            self.watch = nullcontext

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        composed = self.composed
        count = len(composed.input_names)
        # In-place writes of the module must land in a copy, never in what the caller holds.
        copies = [tensor.clone() for tensor in tensors]
        inputs = dict(zip(composed.input_names, copies[:count], strict=True))
        memory = dict(zip(composed.memory_names, copies[count:], strict=True))
        with self.watch(), attributes_kept(composed.module, composed.slots):
            outputs, after = composed(inputs, memory)
        return (
            *(outputs[name] for name in self.outputs),
            *(after[name] for name in composed.memory_names),
        )


@contextmanager
def attributes_kept(module: nn.Module, slots: Sequence[Slot]) -> Iterator[None]:
    """Attributes and buffers that are rebound inside are bound again to what they were.

    While a graph is captured they would otherwise go on holding tensors of the capture.
    """
    before = [(each, dict(vars(each)), dict(each._buffers)) for each in module.modules()]
    inside = [(slot.path, attribute(module, slot.path)) for slot in slots if slot.path is not None]
    try:
        yield
    finally:
        for each, own, buffers in before:
            if any(own.get(key) is not value for key, value in vars(each).items()):
                vars(each).clear()
                vars(each).update(own)
            each._buffers.update(buffers)
        for path, value in inside:
            if attribute(module, path) is not value:
                set_attribute(module, path, value)


def where_rows(mask: Tensor, one: Tensor, other: Tensor, axis: int | None) -> Tensor:
    """`one` in the rows of the mask, `other` in the rest; `axis` is that of the rows."""
    if mask.ndim and axis is not None:
        mask = mask.reshape(*(1,) * axis, -1, *(1,) * (one.ndim - axis - 1))
    return torch.where(mask, one, other)


def _cloned(tensors: Mapping[str, Tensor]) -> Tensors:
    return {name: value.clone() for name, value in tensors.items()}


def named_outputs(result: Any, source: Source) -> Tensors:
    """The returned tensors by name: the user's, a dict's, a named tuple's, or `actions`."""
    names, tensors = _returned(result)
    where = type(source.module).__name__
    # What is left out by name need not be there: `return action, None` of an actor that can give
    # a log-probability too.
    left_out = [name is None for name in source.outputs or ()]
    tensors = [
        torch.empty(0) if value is None and len(left_out) == len(tensors) and left_out[i] else value
        for i, value in enumerate(tensors)
    ]
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise ExportError(
                f"{source.called} returns a {type(tensor).__name__}, expected tensors",
                code="RW190",
                where=return_line(source.code) or where,
                hint="return a tensor of it, such as distribution.mean"
                if isinstance(tensor, Distribution)
                else _without(tensors, names)
                if tensor is None and len(tensors) > 1
                else "return a tensor with one row for each row of the input, or do not return it",
            )
        if tensor.layout is not torch.strided:
            raise ExportError(
                f"{source.called} returns a tensor that is {tensor.layout}",
                code="RW190",
                where=return_line(source.code) or where,
                hint="keep it dense on the way: an artifact has no other tensors",
            )
    wanted = source.outputs if source.outputs is not None else names
    if wanted is None and len(tensors) > 1:
        raise UsageError(
            f"{source.called} returns {len(tensors)} tensors without names",
            where=where,
            hint=f"name them in the order in which they are returned, the action 'actions': "
            f"outputs={_proposed(source, len(tensors))!r}, with None for one to leave out",
        )
    wanted = [_free_name(source)] if wanted is None else wanted
    if len(wanted) != len(tensors):
        raise UsageError(
            f"outputs names {len(wanted)} tensors, {source.called} returns {len(tensors)}",
            where=where,
            hint="give one name for each tensor, and None for one to leave out",
        )
    twice = [name for name, count in Counter(wanted).items() if name is not None and count > 1]
    if twice:
        raise UsageError(
            f"two outputs are called {twice[0]!r}",
            where=where,
            hint="give each its own name: outputs=(…)",
        )
    return {n: t for n, t in zip(wanted, tensors, strict=True) if n is not None}


def _without(values: Sequence[Any], names: Sequence[str] | None) -> str:
    """What to write where one of some results is None."""
    kept = [
        None if value is None else (names[i] if names else "actions" if i == 0 else f"output_{i}")
        for i, value in enumerate(values)
    ]
    return f"leave it out: outputs={tuple(kept)!r}"


def _proposed(source: Source, count: int) -> tuple[str, ...]:
    return (_free_name(source), *(f"output_{place}" for place in range(2, count + 1)))


def _free_name(source: Source) -> str:
    """What an output is called that nobody named: a policy may also read its last actions."""
    return next(n for n in ("actions", "next_actions", "outputs") if n not in source.ports)


def _returned(result: Any) -> tuple[Sequence[str] | None, list[Any]]:
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return result._fields, list(result)
    if dataclasses.is_dataclass(result) and not isinstance(result, (type, Mapping)):
        result = {each.name: getattr(result, each.name) for each in dataclasses.fields(result)}
    if isinstance(result, Mapping):
        named: Tensors = {}
        for key, value in result.items():
            plain = isinstance(value, Tensor)
            named |= {key: value} if plain else unpack(layout_of(key, value), value)
        return list(named), list(named.values())
    if isinstance(result, (tuple, list)):
        if all(isinstance(each, Tensor) for each in result):
            return None, list(result)
        return None, list(unpack(layout_of("", result), result).values())
    return None, [result]
