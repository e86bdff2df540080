"""Indexing by a traced whole number: `ring[:, pointer]`, read and written.

PyTorch takes an index without axes for a Python number and asks for its value, which a graph does
not have yet. Gathering and scattering along the axis do the same without asking.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map_only


def has_traced_places(index: Any) -> bool:
    """Whether some entry of the index is a traced whole number."""
    return any(_is_place(each) for each in _entries(index))


def widened(index: Any) -> Any:
    """The index with its whole numbers in 64 bits: ONNX takes no others inside of a branch."""
    return tree_map_only(
        torch.Tensor, lambda each: each.long() if each.dtype == torch.int32 else each, index
    )


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


INDEXING: dict[Any, Callable[..., Any]] = {
    torch.Tensor.__getitem__: read,
    torch.Tensor.__setitem__: write,
}


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
