"""What persists between steps: arguments that come back as results, or attributes of the module."""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from roadworthy.capture.forms import (
    Form,
    Leaf,
    copied,
    form_of,
    mapped,
    refuse_objects,
    starting_form,
    walked,
)
from roadworthy.capture.source import FIRST_INPUT, STARTED, Attribute, Place
from roadworthy.errors import UsageError, did_you_mean
from roadworthy.spec.layout import Layout
from roadworthy.spec.port import BATCH, Memory, freeze

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """One declared memory: an argument, or the attribute at `path`.

    `returned` is where the successor of an argument stands among the results, where that was said.
    `start` is the form in which an episode starts, where the first input makes the rest of it.
    """

    name: str
    path: str | None
    form: Form
    returned: Place | None = None
    start: Form | None = None

    @property
    def layout(self) -> Layout:
        return self.form.layout

    @property
    def ports(self) -> list[str]:
        return [leaf.port for leaf in self.form.leaves]

    @property
    def numbers(self) -> list[str]:
        """The ports that hold one number for each row."""
        return [leaf.port for leaf in self.form.leaves if leaf.kind != "tensor"]


def attribute(module: torch.nn.Module, path: str) -> Any:
    """The value at a dotted path below `module`, or an error that names the nearest attribute."""
    owner, name = _owner(module, path)
    if not _has(owner, name):
        raise _no_attribute(module, path, owner, name)
    return _below(owner, name)


def set_attribute(module: torch.nn.Module, path: str, value: Any) -> None:
    owner, name = _owner(module, path)
    if isinstance(owner, MutableMapping):
        owner[_key(owner, name)] = value
    elif isinstance(owner, (list, deque)):
        owner[int(name)] = value
    else:
        setattr(owner, name, value)


def _owner(module: torch.nn.Module, path: str) -> tuple[Any, str]:
    *parents, name = re.sub(r"\[['\"]?([^\]'\"]*)['\"]?\]", r".\1", path).split(".")
    owner: Any = module
    for parent in parents:
        if not _has(owner, parent) or (below := _below(owner, parent)) is None:
            raise _no_attribute(module, path, owner, parent)
        owner = below
    return owner, name


def _has(owner: Any, name: str) -> bool:
    if isinstance(owner, Mapping):
        return _key(owner, name) in owner
    if name.isdigit() and hasattr(owner, "__getitem__"):
        return int(name) < len(owner)
    return hasattr(owner, name)


def _below(owner: Any, name: str) -> Any:
    if isinstance(owner, Mapping):
        return owner[_key(owner, name)]
    return owner[int(name)] if name.isdigit() else getattr(owner, name)


def _key(owner: Mapping[Any, Any], name: str) -> Any:
    return int(name) if name.isdigit() and name not in owner else name


def _no_attribute(module: torch.nn.Module, path: str, owner: Any, name: str) -> UsageError:
    if isinstance(owner, Mapping):
        known = [str(key) for key in owner]
    elif isinstance(owner, (list, tuple, deque)):
        known = [str(index) for index in range(len(owner))]
    else:
        known = [*getattr(owner, "__dict__", {})]
    if isinstance(owner, torch.nn.Module):
        known += [*dict(owner.named_buffers(recurse=False)), *dict(owner.named_children())]
    public = [key for key in known if not key.startswith("_")]
    hint = did_you_mean(name, public or known)
    if not hint.startswith("did you"):
        hint += (
            f"; what only the first call makes must be there before: self.{name} = None in "
            f"__init__, and `if self.{name} is None:` in forward"
        )
    return UsageError(
        f"{type(module).__name__} has no attribute {path!r}", where="memory", hint=hint
    )


def argument_slot(name: str, value: Any, returned: Place | None = None) -> Slot:
    """The slot of an argument, which nests as its initial value does."""
    refuse_objects(name, name, value)
    for place, leaf in walked("", value):
        if not isinstance(leaf, torch.Tensor):
            raise UsageError(
                f"memory holds a {type(leaf).__name__}, expected a tensor",
                where=f"{name}{place}",
                hint="pass a tensor with a batch axis, such as torch.zeros(1, 1)",
            )
    return Slot(name, None, form_of(name, [value], whole=False), returned)


def attribute_slot(name: str, declared: Attribute, stages: Sequence[Any]) -> Slot:
    """The slot of an attribute, from what it held before and after each of some calls."""
    held, *later = stages
    for each in later:
        refuse_objects(name, declared.path, each)
    made = list(stages) if alike(held, later[-1]) and not is_first_input(declared) else later
    form = form_of(name, made, whole=True)
    start = starting_form(form, copied(held)) if is_first_input(declared) else None
    return Slot(name, declared.path, form, None, start)


def alike(one: Any, other: Any) -> bool:
    """Whether two values nest in the same way."""
    left, right = dict(walked("", one)), dict(walked("", other))
    return list(left) == list(right) and all(
        _kind(left[place]) == _kind(right[place]) for place in left
    )


def _kind(value: Any) -> object:
    if isinstance(value, (Leaf, torch.Tensor, int, float)) and not isinstance(value, bool):
        return "value"
    return value


def is_first_input(declared: Attribute) -> bool:
    return isinstance(declared.initial, str) and declared.initial == FIRST_INPUT


def attribute_start(declared: Attribute, slot: Slot, held: Any, made: Any) -> Tensors:
    """Where the ports of an attribute start: what the user says, or zeros, or a question."""
    there = alike(held, made)
    values = slot.form.unpack(held if there else made, declared.path)
    tensors = {port: as_tensor(leaf).detach().to("cpu") for port, leaf in values.items()}
    tensors |= {port: tensors[port].reshape(1) for port in slot.numbers}
    if declared.initial is None or isinstance(declared.initial, str):
        if declared.initial not in (None, "current", FIRST_INPUT):
            raise UsageError(
                f"initial={declared.initial!r} is not a value to start from",
                where=declared.path,
                hint="pass a number, a tensor, 'current' for what the attribute holds now, or "
                "'first input' where the first call makes it",
            )
        if declared.initial == "current" and there:
            return {port: leaf.clone() for port, leaf in tensors.items()}
        if declared.initial is None and there and any(leaf.any() for leaf in tensors.values()):
            raise UsageError(
                "the attribute holds values that are not zero: every episode would start from them",
                code="RW114",
                where=declared.path,
                hint="reset the module before the export, or keep them on purpose: "
                f"memory={{{slot.name!r}: "
                f"rw.Attribute({declared.path!r}, initial='current')}}",
            )
        return {port: torch.zeros_like(leaf) for port, leaf in tensors.items()}
    start = torch.as_tensor(declared.initial)
    return {p: (torch.zeros_like(leaf) + start).to(leaf.dtype) for p, leaf in tensors.items()}


def as_tensor(value: Any) -> torch.Tensor:
    """A leaf as a tensor: a float as Python keeps it, in double precision."""
    if isinstance(value, torch.Tensor):
        return value
    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else torch.int64)


def insert_attributes(
    slots: tuple[Slot, ...], module: torch.nn.Module, tensors: Mapping[str, Any]
) -> None:
    """Changes the module: its attributes are set to the tensors that stand for them.

    Flags that the first call sets have no ports: they go with the memory that tells it.
    """
    told = any(name in tensors for name in STARTED)
    for each in slots:
        given = all(port in tensors for port in each.ports) if each.ports else told
        if each.path is not None and given:
            set_attribute(module, each.path, each.form.pack(tensors))


def read_attributes(slots: tuple[Slot, ...], module: torch.nn.Module) -> Tensors:
    """What the module's attributes hold now, port by port."""
    found: Tensors = {}
    for each in slots:
        if each.path is not None:
            held = each.form.unpack(attribute(module, each.path), each.path)
            found |= {port: as_tensor(value) for port, value in held.items()}
    return found


# The attribute has no batch axis of its own: it gets one in front.
NEW_AXIS = -1
# Its first axis holds several rows for each row of the batch: these get an axis of their own.
GROUPED = -2


def grouped_rows(slots: Sequence[Slot], initial: Tensors, rows: int) -> dict[str, int]:
    """Of each memory that may hold several rows for each of the example's: how many."""
    found: dict[str, int] = {}
    for leaf in (each for slot in slots for each in slot.form.leaves if each.kind == "tensor"):
        shape = initial[leaf.port].shape
        if len(shape) == leaf.axes and not shape[0] % rows:
            found[leaf.port] = shape[0] // rows
        elif len(shape) == leaf.axes + 1 and shape[0] == rows:  # one behind the other after a call
            found[leaf.port] = shape[1]
    return {port: count for port, count in found.items() if count > 1}


def with_grouped(slots: Sequence[Slot], grouped: Mapping[str, int]) -> tuple[Slot, ...]:
    """The slots, with several rows for each row of the batch in the ports that are named."""

    def leaf(each: Any) -> Any:
        return replace(each, each=grouped.get(each.port, 0)) if isinstance(each, Leaf) else each

    return tuple(replace(slot, form=Form(mapped(slot.form.template, leaf))) for slot in slots)


def carried(slots: Sequence[Slot], initial: Tensors) -> Tensors:
    """The initial values as the ports have them."""
    leaves = (leaf for slot in slots for leaf in slot.form.leaves)
    return initial | {leaf.port: leaf.carried(initial[leaf.port]) for leaf in leaves}


def axes_to_try(
    slots: Sequence[Slot], initial: Tensors, grouped: Mapping[str, int]
) -> Iterator[dict[str, int]]:
    """Ways in which the batch axis may lie, the likely ones (the same axis for all) first."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    fixed: dict[str, int] = dict.fromkeys(initial, 0)
    for slot in slots:
        for port in slot.ports:
            if port not in slot.numbers:
                # What lies in one container, in one shape, is laid out alike.
                groups.setdefault((slot.name, *initial[port].shape), []).append(port)
    own = {name for slot in slots if slot.path is not None for name in slot.ports}
    axes = [
        [
            *range(initial[ports[0]].ndim),
            *([NEW_AXIS] if ports[0] in own else []),
            *([GROUPED] if ports[0] in grouped else []),
        ]
        for ports in groups.values()
    ]
    ways = sorted(
        itertools.product(*axes),
        key=lambda way: (way.count(GROUPED), way.count(NEW_AXIS), len(set(way))),
    )
    for way in ways:
        chosen = zip(groups.values(), way, strict=True)
        yield fixed | {port: axis for ports, axis in chosen for port in ports}


def one_row(name: str, value: torch.Tensor, axis: int) -> torch.Tensor:
    """The initial value of a single row; rows that start differently cannot be one policy."""
    if axis == NEW_AXIS:
        return value.unsqueeze(0)
    first = value.select(axis, 0).unsqueeze(axis)
    if not torch.equal(first.expand_as(value), value):
        raise UsageError(
            "the rows of the initial value differ, and every row must start the same",
            where=name,
            hint="pass an initial value of one row",
        )
    return first


def memory_port(name: str, row: torch.Tensor, axis: int | None) -> Memory:
    """The memory port that starts at `row`."""
    shape = tuple(BATCH if i == axis else size for i, size in enumerate(row.shape))
    dtype = str(row.dtype).removeprefix("torch.")
    return Memory(name=name, dtype=dtype, shape=shape, initial=freeze(row))
