"""What PyTorch says of its operators, in their schemas and tags."""

from __future__ import annotations

import functools

import torch
from torch import Tag
from torch._ops import OpOverload, OpOverloadPacket

# Arguments of what draws while it trains: a dropout, an LSTM, attention.
_TRAINING = frozenset({"train", "training", "dropout", "dropout_p"})


@functools.cache
def overloads(name: str) -> tuple[OpOverload, ...]:
    """The overloads of an operator that return what they make; none for any other name."""
    packet = getattr(torch.ops.aten, name, None)
    if not isinstance(packet, OpOverloadPacket):
        return ()
    every = (getattr(packet, each) for each in packet.overloads())  # type: ignore[no-untyped-call]
    return tuple(
        each
        for each in every
        if isinstance(each, OpOverload) and not any(a.is_out for a in each._schema.arguments)
    )


def arguments(overload: OpOverload) -> list[str]:
    """The names of its arguments, in order."""
    return [each.name for each in overload._schema.arguments]


@functools.cache
def draws(name: str) -> bool:
    """Whether `torch.name` or the method of a tensor draws random numbers whenever it is called."""
    if not callable(getattr(torch, name, None)) and not hasattr(torch.Tensor, name):
        return False
    return any(
        Tag.nondeterministic_seeded in each.tags and _TRAINING.isdisjoint(arguments(each))
        for each in overloads(name)
    )


@functools.cache
def counts_values(name: str) -> bool:
    """Whether the shape of what a function gives depends on the values in a tensor.

    `unique` is Python's. What `one_hot` gives does so only where it is not told how many there are.
    """
    if name in ("unique", "one_hot"):
        return name == "unique"
    found = overloads(name)
    return bool(found) and all(Tag.dynamic_output_shape in each.tags for each in found)


@functools.cache
def gives_no_values(name: str) -> bool:
    """Whether a method of a tensor gives its size, or else what is known without its values.

    `ndimension` and `nelement` are Python's.
    """
    if name in ("ndimension", "nelement"):
        return True
    found = overloads(name) if hasattr(torch.Tensor, name) else ()
    return bool(found) and all(
        each._schema.returns
        and not _returns_tensors(each)
        and Tag.data_dependent_output not in each.tags
        for each in found
    )


@functools.cache
def takes_device(method: str) -> bool:
    """Whether a method of a tensor makes one where it is told to; `new_tensor` is Python's."""
    if not hasattr(torch.Tensor, method):
        return False
    return method == "new_tensor" or any(
        "device" in arguments(each) and _returns_tensors(each) for each in overloads(method)
    )


def writes(target: object) -> bool:
    """Whether an operator writes into its arguments."""
    return isinstance(target, OpOverload) and target._schema.is_mutable


def _returns_tensors(overload: OpOverload) -> bool:
    return any("Tensor" in str(each.type) for each in overload._schema.returns)
