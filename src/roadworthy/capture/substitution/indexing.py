"""Indexing by a traced whole number: `ring[:, pointer]`, read, written and rolled.

PyTorch takes an index without axes for a Python number and asks for its value, which a graph does
not have yet. Gathering and scattering along the axis do the same without asking. And indices of 32
bits, which ONNX does not have, are widened.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch


def replaced(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any] | None:
    """What to call in the place of an indexing call in a graph; None where it is fine as it is."""
    if func in _BY_INDEX and len(args) > 1:
        if has_traced_places(args[1]):
            return partial(_BY_INDEX[func], *args, **kwargs)
        if any(_is_narrow(each) for each in _entries(args[1])):
            wide = tuple(each.long() if _is_narrow(each) else each for each in _entries(args[1]))
            return partial(func, args[0], wide, *args[2:], **kwargs)
    if func in (torch.roll, torch.Tensor.roll):
        bound = dict(zip(("tensor", "shifts", "dims"), args, strict=False)) | kwargs
        bound["tensor"] = bound.pop("input", bound.get("tensor"))
        shifts, dims = _one(bound["shifts"]), _one(bound.get("dims"))
        if isinstance(dims, int) and (_is_place(shifts) or isinstance(shifts, torch.SymInt)):
            return partial(roll, bound["tensor"], shifts, dims)
    return None


def has_traced_places(index: Any) -> bool:
    """Whether some entry of the index is a traced whole number."""
    return any(_is_place(each) for each in _entries(index))


def read(tensor: torch.Tensor, index: Any) -> torch.Tensor:
    """`tensor[index]`."""
    axis, place, rest = _first_place(tensor, index)
    chosen = tensor.index_select(axis, place)
    return read(chosen, rest) if has_traced_places(rest) else chosen[rest]


def write(tensor: torch.Tensor, index: Any, value: Any) -> None:
    """`tensor[index] = value`."""
    axis, place, rest = _first_place(tensor, index)
    chosen = tensor.index_select(axis, place)
    if has_traced_places(rest):
        write(chosen, rest, value)
    else:
        chosen[rest] = value
    tensor.index_copy_(axis, place, chosen)


def roll(tensor: torch.Tensor, shifts: Any, dims: int) -> torch.Tensor:
    """`torch.roll(tensor, shifts, dims)`, for one axis."""
    size = tensor.shape[dims]
    places = torch.arange(size, device=tensor.device) - shifts
    return tensor.index_select(dims, torch.remainder(places, size))


_BY_INDEX: dict[Any, Callable[..., Any]] = {
    torch.Tensor.__getitem__: read,
    torch.Tensor.__setitem__: write,
}


def _one(value: Any) -> Any:
    """The only one of a sequence; anything else as it is."""
    return value[0] if isinstance(value, (tuple, list)) and len(value) == 1 else value


def _is_narrow(entry: Any) -> bool:
    """Whether an entry is an index of fewer bits than ONNX takes; flags of uint8 are no indices."""
    return isinstance(entry, torch.Tensor) and entry.dtype in (torch.int32, torch.int16, torch.int8)


def _entries(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def _is_place(entry: Any) -> bool:
    return (
        isinstance(entry, torch.Tensor)
        and entry.ndim == 0
        and not entry.is_floating_point()
        and entry.dtype != torch.bool
    )


def _first_place(tensor: torch.Tensor, index: Any) -> tuple[int, torch.Tensor, tuple[Any, ...]]:
    """The axis of the first traced number, the number, and the index that is left for it.

    After the axis has been gathered it has one element, so the number becomes 0.
    """
    entries = _entries(index)
    spot = next(i for i, each in enumerate(entries) if _is_place(each))
    before = sum(_axes(each) for each in entries[:spot])
    if any(each is Ellipsis for each in entries[:spot]):
        before = tensor.ndim - sum(_axes(each) for each in entries[spot:])
    place = entries[spot].to(torch.int64)
    size = tensor.shape[before]
    place = torch.where(place < 0, place + size, place).reshape(1)
    return before, place, (*entries[:spot], 0, *entries[spot + 1 :])


def _axes(entry: Any) -> int:
    """How many axes of the tensor an entry of the index is about."""
    if entry is None or entry is Ellipsis:
        return 0
    if isinstance(entry, torch.Tensor) and entry.dtype == torch.bool:
        return entry.ndim
    return 1
