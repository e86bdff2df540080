"""The module by itself, beside the module with its declared memory put in.

A tensor under two names, a view that was made once, a queue that a part of the policy shares: what
is put into one of the names does not reach the other, in the original that is compared neither.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from types import NoneType
from typing import Any

import torch

from roadworthy.capture.compose import ComposedPolicy
from roadworthy.capture.forms import walked
from roadworthy.capture.memory import Slot, Tensors, attribute
from roadworthy.capture.source import Attribute
from roadworthy.errors import ExportError
from roadworthy.inspection.reach import Reach, root
from roadworthy.inspection.snapshot import preserved
from roadworthy.spec.tolerance import SAME_POLICY

# Queues pass a value on after some steps; longer ones than this are told from the first ones.
STEPS = 8
_CONTAINERS = (list, dict, deque)


def refuse_cut_ties(composed: ComposedPolicy, example: Tensors, memory: Tensors) -> None:
    """An error where the module by itself gives something else than with its memory put in.

    `memory` is the start of every port, for as many rows as the example has.
    """
    kept = [slot for slot in composed.slots if slot.path is not None]
    if not kept:
        return
    own = {port for slot in composed.slots if slot.path is None for port in slot.ports}
    alone = {name: value for name, value in memory.items() if name in own}
    if not all(_starts_there(composed, slot, memory) for slot in kept):
        return
    native = _outputs(composed, example, alone)
    again = _outputs(composed, example, alone)
    if native is None or again is None or _first_apart(native, again) is not None:
        return  # other rows than the example's, or draws that were said not to matter
    declared = _outputs(composed, example, memory)
    apart = None if declared is None else _first_apart(native, declared)
    if apart is None or declared is None:
        return
    step, name = apart
    place = type(composed.module).__name__
    shared = next(_shared(composed, kept, example, alone), None)
    if shared is not None:
        path, other, what = shared
        raise ExportError(
            f"{other} is the same {what}: what is put into {path} does not reach it, and "
            f"{name!r} comes out otherwise at step {step}",
            code="RW197",
            where=f"{place}.{path}",
            hint=f"keep it under one name: read self.{path} in forward where {other} is read now, "
            f"and declare {path} alone",
        )
    raise ExportError(
        f"called by itself the module gives another {name!r} at step {step} than with the "
        "declared memory put in",
        code="RW197",
        where=f"{place}.{kept[0].path}",
        hint="something else holds what memory= names, or the tensors inside of it: keep each "
        "thing under one name, and read it under that name in forward",
    )


def _starts_there(composed: ComposedPolicy, slot: Slot, memory: Tensors) -> bool:
    """Whether the module by itself starts where the declared memory does."""
    declared = composed.source.memory[slot.name]
    said = isinstance(declared, Attribute) and not isinstance(declared.initial, (str, NoneType))
    held = attribute(composed.module, str(slot.path))
    if slot.start is not None or held is None:
        return not said  # its first call makes it; where it makes something else was looked at
    try:
        found = slot.form.unpack(held, str(slot.path))
    except ExportError:  # not made yet
        return not said
    return all(
        not isinstance(value, torch.Tensor)
        or value.shape != memory[port].shape
        or torch.equal(value.cpu(), memory[port])
        for port, value in found.items()
    )


def _outputs(composed: ComposedPolicy, example: Tensors, memory: Tensors) -> list[Tensors] | None:
    """What some steps give, each from the memory that the last one left; None where they raise."""
    found = []
    with preserved(composed.module), torch.no_grad():
        try:
            for inputs in _inputs(example):
                outputs, after = composed(inputs, {n: each.clone() for n, each in memory.items()})
                memory = {name: after[name] for name in memory}
                found.append({name: value.detach().clone() for name, value in outputs.items()})
        except Exception:  # the user's code, with state that has other rows than the example
            return None
    return found


def _inputs(example: Tensors) -> Iterator[Tensors]:
    """The example, moved differently at every step and in every element."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(STEPS):
        yield {
            name: value + torch.randn(value.shape, generator=generator).to(value)
            if value.is_floating_point()
            else value.clone()
            for name, value in example.items()
        }


def _first_apart(one: Sequence[Tensors], other: Sequence[Tensors]) -> tuple[int, str] | None:
    for step, (left, right) in enumerate(zip(one, other, strict=True)):
        for name, value in left.items():
            if not SAME_POLICY.close(value, right[name]):
                return step, name
    return None


def _shared(
    composed: ComposedPolicy, kept: Sequence[Slot], example: Tensors, alone: Tensors
) -> Iterator[tuple[str, str, str]]:
    """A declared path, another place that holds the same thing, and what that is."""
    with preserved(composed.module), torch.no_grad():
        composed(next(_inputs(example)), {n: each.clone() for n, each in alone.items()})
        reach = Reach()
        slots = list(reach.walk([root("", composed.module)]))
        for slot in kept:
            path = str(slot.path)
            held = attribute(composed.module, path)
            inside = {id(each): each for each in _containers(held)}
            storages = {
                each.untyped_storage().data_ptr()
                for _, each in walked("", held)
                if isinstance(each, torch.Tensor)
            }
            for other in slots:
                if other.name == path or _is_below(other.name, path):
                    continue
                if id(other.value) in inside:
                    yield path, other.name, type(other.value).__name__
                elif (
                    isinstance(other.value, torch.Tensor)
                    and other.value.numel()
                    and other.value.untyped_storage().data_ptr() in storages
                    and not _is_held_by(other.parent, inside, reach.slots)
                ):
                    yield path, other.name, "tensor, or a view of it"


def _containers(value: Any) -> Iterator[Any]:
    if isinstance(value, _CONTAINERS):
        yield value
        for each in value.values() if isinstance(value, dict) else value:
            yield from _containers(each)


def _is_below(name: str, path: str) -> bool:
    return name.startswith((f"{path}.", f"{path}["))


def _is_held_by(name: str, inside: Mapping[int, Any], slots: Mapping[str, Any]) -> bool:
    """Whether a place is one of the containers of the memory itself."""
    return name in slots and id(slots[name].value) in inside
