"""What persists between steps: arguments that come back as results, or attributes of the module."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from roadworthy.errors import UsageError, did_you_mean
from roadworthy.source import Attribute
from roadworthy.spec.layout import Layout, layout_of, pack, ports_of, unpack
from roadworthy.spec.port import BATCH, Memory, freeze

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Slot:
    """One declared memory: the forward argument `name`, or the attribute at `path`."""

    name: str
    path: str | None
    layout: Layout

    @property
    def ports(self) -> list[str]:
        return ports_of(self.layout)


def attribute(module: torch.nn.Module, path: str) -> Any:
    """The value at a dotted path below `module`, or an error that names the nearest attribute."""
    owner, name = _owner(module, path)
    if not hasattr(owner, name):
        raise _no_attribute(module, path, owner, name)
    return getattr(owner, name)


def set_attribute(module: torch.nn.Module, path: str, value: Any) -> None:
    owner, name = _owner(module, path)
    setattr(owner, name, value)


def _owner(module: torch.nn.Module, path: str) -> tuple[Any, str]:
    *parents, name = path.split(".")
    owner: Any = module
    for parent in parents:
        below = owner[int(parent)] if parent.isdigit() else getattr(owner, parent, None)
        if below is None:
            raise _no_attribute(module, path, owner, parent)
        owner = below
    return owner, name


def _no_attribute(module: torch.nn.Module, path: str, owner: Any, name: str) -> UsageError:
    known = [*vars(owner)]
    if isinstance(owner, torch.nn.Module):
        known += [*dict(owner.named_buffers(recurse=False)), *dict(owner.named_children())]
    public = [key for key in known if not key.startswith("_")]
    return UsageError(
        f"{type(module).__name__} has no attribute {path!r}",
        where="memory",
        hint=did_you_mean(name, public or known),
    )


def slot(name: str, path: str | None, value: Any) -> Slot:
    """The slot for one entry of `memory=`, whose value nests as `value` does."""
    layout = layout_of(name, value)
    leaves = {name: value} if isinstance(value, list) else unpack(layout, value)
    for port, leaf in leaves.items():
        if not isinstance(leaf, torch.Tensor):
            raise UsageError(
                f"memory holds a {type(leaf).__name__}, expected a tensor",
                where=port,
                hint="keep what persists in a tensor with a batch axis, such as zeros(batch, 1)",
            )
    return Slot(name, path, layout)


def attribute_start(declared: Attribute, name: str, held: Any, made: Any) -> Any:
    """Where an attribute starts: what the user says, or zeros, or a question."""
    layout = layout_of(name, made)
    tensors = {port: leaf.detach().to("cpu") for port, leaf in unpack(layout, made).items()}
    if declared.initial is None or isinstance(declared.initial, str):
        if declared.initial not in (None, "current"):
            raise UsageError(
                f"initial={declared.initial!r} is not a value to start from",
                where=declared.path,
                hint="pass a number, a tensor, or 'current' for what the attribute holds now",
            )
        if declared.initial == "current" and held is not None:
            return {port: leaf.clone() for port, leaf in tensors.items()}
        if held is not None and any(leaf.any() for leaf in tensors.values()):
            raise UsageError(
                "the attribute holds values that are not zero: every episode would start from them",
                code="RW114",
                where=declared.path,
                hint="reset the module before the export, or keep them on purpose: "
                f"memory={{{name!r}: "
                f"rw.Attribute({declared.path!r}, initial='current')}}",
            )
        return {port: torch.zeros_like(leaf) for port, leaf in tensors.items()}
    start = torch.as_tensor(declared.initial)
    return {p: (torch.zeros_like(leaf) + start).to(leaf.dtype) for p, leaf in tensors.items()}


def insert_attributes(
    slots: tuple[Slot, ...], module: torch.nn.Module, tensors: Mapping[str, Any]
) -> None:
    """Changes the module: its attributes are set to the tensors that stand for them."""
    for each in slots:
        if each.path is not None and all(port in tensors for port in each.ports):
            set_attribute(module, each.path, pack(each.layout, tensors))


def read_attributes(slots: tuple[Slot, ...], module: torch.nn.Module) -> Tensors:
    """What the module's attributes hold now, port by port."""
    found: Tensors = {}
    for each in slots:
        if each.path is not None:
            found |= unpack(each.layout, attribute(module, each.path))
    return found


def axes_to_try(initial: Tensors) -> Iterator[dict[str, int]]:
    """Ways in which the batch axis may lie, the likely ones (the same axis for all) first."""
    axes = [range(value.ndim) for value in initial.values()]
    ways = [dict(zip(initial, way, strict=True)) for way in itertools.product(*axes)]
    yield from sorted(ways, key=lambda way: len(set(way.values())))


def one_row(name: str, value: torch.Tensor, axis: int) -> torch.Tensor:
    """The initial value of a single row; rows that start differently cannot be one policy."""
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
