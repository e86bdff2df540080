"""What the declared memory is: looked at before the module is called, and after some calls."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from roadworthy.capture.call_style import call_style
from roadworthy.capture.compose import ComposedPolicy
from roadworthy.capture.failures import explained
from roadworthy.capture.forms import copied
from roadworthy.capture.memory import (
    Slot,
    Tensors,
    alike,
    argument_slot,
    attribute,
    attribute_slot,
    attribute_start,
    is_first_input,
)
from roadworthy.capture.source import Argument, Attribute, Source
from roadworthy.errors import UsageError
from roadworthy.inspection.snapshot import preserved

# The first call may build what the second finds, and a number moves at every call or seldom.
CALLS = 3


def declared_slots(source: Source) -> tuple[tuple[Slot, ...], Tensors]:
    """The declared memories, and where each of their ports starts."""
    slots, starts = _looked_at(source)
    initial: Tensors = {}
    for slot in slots:
        initial |= starts[slot.name]()
    return slots, initial


def slots_of(source: Source) -> tuple[Slot, ...]:
    """The declared memories alone, whatever the module holds at the moment."""
    return _looked_at(source)[0]


def _looked_at(source: Source) -> tuple[tuple[Slot, ...], dict[str, Callable[[], Tensors]]]:
    slots, initial = _arguments(source)
    starts: dict[str, Callable[[], Tensors]] = {
        name: partial(_only, initial, slot.ports) for name, slot in slots.items()
    }
    kept = {n: each for n, each in source.memory.items() if isinstance(each, Attribute)}
    held = {name: copied(attribute(source.module, each.path)) for name, each in kept.items()}
    after = _after_calls(source, slots, initial, kept) if kept else []
    for name, place in kept.items():
        stages = [held[name], *(each[name] for each in after)]
        slots[name] = attribute_slot(name, place, stages)
        starts[name] = partial(attribute_start, place, slots[name], held[name], after[0][name])
    _refuse_begun(source, kept, held, after)
    return tuple(slots[name] for name in source.memory), starts


def _only(initial: Tensors, ports: Sequence[str]) -> Tensors:
    return {port: initial[port] for port in ports}


def _refuse_begun(
    source: Source,
    kept: Mapping[str, Attribute],
    held: Mapping[str, Any],
    after: Sequence[Mapping[str, Any]],
) -> None:
    """An error where the first call has nothing left to make: an episode has begun already."""
    first = [name for name, each in kept.items() if is_first_input(each)]
    if first and all(alike(held[name], after[0][name]) for name in first):
        raise UsageError(
            "the module is in the midst of an episode: it holds what the first call makes",
            code="RW114",
            where=f"{type(source.module).__name__}.{kept[first[0]].path}",
            hint="reset the module before the export, as before an episode",
        )


def _arguments(source: Source) -> tuple[dict[str, Slot], Tensors]:
    slots: dict[str, Slot] = {}
    initial: Tensors = {}
    for name, declared in source.memory.items():
        if isinstance(declared, Attribute):
            continue
        told = declared if isinstance(declared, Argument) else Argument(declared)
        slots[name] = argument_slot(name, told.initial, told.returned)
        values = slots[name].form.unpack(told.initial, name)
        initial |= {port: value.detach().cpu() for port, value in values.items()}
    return slots, initial


def _after_calls(
    source: Source, slots: Mapping[str, Slot], initial: Tensors, kept: Mapping[str, Attribute]
) -> list[dict[str, Any]]:
    """What the attributes hold after each of some calls, as the module itself makes them."""
    # What follows the module does not matter here, and its masks may not be in the example.
    bare = dataclasses.replace(source, action=())
    composed = ComposedPolicy(bare, call_style(source, list(slots)), tuple(slots.values()))
    found = []
    with preserved(source.module), explained(source), torch.no_grad():
        memory = {name: value.clone() for name, value in initial.items()}
        for _ in range(CALLS):
            given = {name: value.clone() for name, value in source.tensors.items()}
            _, memory = composed(given, memory)
            found.append({n: copied(attribute(source.module, a.path)) for n, a in kept.items()})
    return found
