"""Views made earlier, made again: the same window on a stand-in for the same memory.

A tensor that looks into a larger one is known by its size, stride and offset alone. Here that
geometry becomes select, slice, reshape and permute, which every backend can write down, where
`as_strided` could not be.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from math import prod

import torch

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """A view's geometry, in elements, relative to the first element of its base."""

    size: Shape
    stride: Shape
    offset: int

    @classmethod
    def of(cls, view: torch.Tensor, base: torch.Tensor) -> Window:
        offset, rest = divmod(view.data_ptr() - base.data_ptr(), base.element_size())
        if rest:
            raise ValueError("the view does not begin at an element of its base")
        return cls(tuple(view.shape), tuple(view.stride()), offset)


@dataclass(frozen=True, slots=True)
class _Part:
    """What a view takes of one base dimension: one index, or a range shaped as view dimensions."""

    start: int
    sizes: Shape = ()
    step: int = 1
    positions: tuple[int, ...] = ()


def look(base: torch.Tensor, shape: Shape, window: Window) -> torch.Tensor:
    """The window on `base`, whose memory is laid out like a contiguous tensor of `shape`.

    Writing through what comes back writes into `base`, unless the view is a kind that only
    `readable` can follow; then a ValueError says so.
    """
    if window.size == shape and window.offset == 0 and _contiguous(window):
        return base
    if window.offset == 0 and _contiguous(window) and prod(window.size) == prod(shape):
        return base.reshape(window.size)
    parts = _parts(shape, window)
    result = base
    # From the last dimension on, so that earlier positions stay where they are.
    for dim in reversed(range(len(shape))):
        part = parts[dim]
        if not part.sizes:
            result = result.select(dim, part.start)
            continue
        total = prod(part.sizes)
        if (part.start, total, part.step) != (0, shape[dim], 1):
            stop = part.start + (total - 1) * part.step + 1
            result = result[(*(slice(None),) * dim, slice(part.start, stop, part.step))]
        if len(part.sizes) > 1:
            result = torch.unflatten(result, dim, part.sizes)
    order = [position for part in parts for position in part.positions]
    result = result.permute(*(order.index(each) for each in sorted(order))) if order else result
    for position, (size, stride) in enumerate(zip(window.size, window.stride, strict=True)):
        if position not in order:
            result = result.unsqueeze(position)
            if size > 1 and stride == 0:
                result = result.expand(
                    *(-1,) * position, size, *(-1,) * (result.ndim - position - 1)
                )
    return result


def readable(base: torch.Tensor, window: Window) -> torch.Tensor:
    """The window's values, whatever its geometry; writing to them does not reach `base`."""
    steps = [
        torch.arange(size, device=base.device) * stride
        for size, stride in zip(window.size, window.stride, strict=True)
    ]
    index = torch.full((), window.offset, device=base.device)
    for position, step in enumerate(steps):
        index = index + step.reshape(-1, *(1,) * (len(steps) - position - 1))
    return base.reshape(-1)[index]


def _contiguous(window: Window) -> bool:
    expected = 1
    for size, stride in zip(reversed(window.size), reversed(window.stride), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _parts(shape: Shape, window: Window) -> list[_Part]:
    """For every base dimension, what the window takes of it."""
    strides = [prod(shape[dim + 1 :]) for dim in range(len(shape))]
    starts = [window.offset // stride % size for stride, size in zip(strides, shape, strict=True)]
    inside: list[list[int]] = [[] for _ in shape]
    for position, (size, stride) in enumerate(zip(window.size, window.stride, strict=True)):
        if size == 1 or stride == 0:
            continue
        home = [
            d
            for d in range(len(shape))
            if shape[d] > 1 and strides[d] <= stride < strides[d] * shape[d]
        ]
        if not home or stride % strides[home[0]]:
            raise ValueError(f"stride {stride} crosses the dimensions of {shape}")
        inside[home[0]].append(position)
    parts = []
    for dim, positions in enumerate(inside):
        if not positions:
            parts.append(_Part(starts[dim]))
            continue
        ordered = sorted(positions, key=lambda p: -window.stride[p])
        for outer, inner in itertools.pairwise(ordered):
            if window.stride[outer] != window.stride[inner] * window.size[inner]:
                raise ValueError("the view leaves gaps inside one dimension")
        step = window.stride[ordered[-1]] // strides[dim]
        sizes = tuple(window.size[p] for p in ordered)
        if starts[dim] + (prod(sizes) - 1) * step >= shape[dim]:
            raise ValueError("the view runs over the end of a dimension")
        parts.append(_Part(starts[dim], sizes, step, tuple(ordered)))
    return parts
