"""What most of a snapshot is made of, kept many at once: places in memory, and mappings.

A simulator is hundreds of arrays and a thousand objects, and is put back hundreds of times; nearly
all of it is then as it was, and to find that out is what takes the time.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from itertools import chain
from operator import is_
from typing import Any

import torch

from roadworthy.spec.port import Array

# Bytes from which a copy is shared between snapshots: meshes and weights hardly ever change.
_SHARED = 1 << 12
# Bytes from which to look at an array takes longer than to look at a hundred small ones: meshes.
LARGE = 1 << 16
# Mappings that are looked at together: where one changed, so many are looked at one by one.
_TOGETHER = 32

_Differs = Callable[[int, bytes, int], Any]


class _Held:
    """The bytes at one place, for all snapshots that found them there."""

    __slots__ = ("__weakref__", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data


_known: weakref.WeakValueDictionary[tuple[int, int], _Held] = weakref.WeakValueDictionary()


def _comparing() -> _Differs:
    """Whether the memory at an address is other than some bytes, without a copy of it."""
    try:
        compare = ctypes.PyDLL(None).memcmp
    except (AttributeError, OSError, TypeError):  # Windows has no library without a name
        return lambda place, held, size: ctypes.string_at(place, size) != held
    compare.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)
    compare.restype = ctypes.c_int
    return compare


_differs = _comparing()


class KeptMemory:
    """The bytes of arrays and tensors in the memory of the CPU: each place once, whoever shows it.

    Nothing is written where nothing changed: memory may be read-only. Past NumPy, for which PyTorch
    would never let a storage be resized again.
    """

    def __init__(self) -> None:
        self._arrays: dict[tuple[int, int], tuple[Array, _Held]] = {}
        self._tensors: list[tuple[torch.Tensor, int]] = []
        # A tensor, its storage as it was, its place there, and what was there, if it is kept here.
        self._placed: list[tuple[torch.Tensor, torch.Tensor, int, int, bytes | None]] = []

    def add_array(self, memory: Array) -> bool:
        """Keeps an array that nobody can resize; False where it is no plain piece of memory."""
        plain = memory.flags.c_contiguous and memory.flags.writeable and not memory.dtype.hasobject
        if not plain or not memory.size:
            return False
        place: int = memory.__array_interface__["data"][0]
        key = place, memory.nbytes
        if key not in self._arrays:
            self._arrays[key] = memory, _held(*key)
        return True

    def add_tensor(self, tensor: torch.Tensor) -> bool:
        """Keeps a tensor when `done`; False where it is no plain piece of memory."""
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.device.type != "cpu":
            return False
        if tensor.layout != torch.strided or tensor.is_nested or not tensor.is_contiguous():
            return False
        if torch._C._functorch.is_functorch_wrapped_tensor(tensor) or not tensor.nbytes:
            return False
        place = tensor.data_ptr()
        if place:
            self._tensors.append((tensor, place))
        return bool(place)

    def done(self) -> None:
        """Copies what the tensors hold, as far as no array shows the same memory."""
        seen = set(self._arrays)
        for tensor, place in self._tensors:
            size = tensor.nbytes
            # Another tensor at the same place may have moved away when this one is put back.
            shown = (place, size) in seen
            held = None if shown else _held(place, size).data
            # `data` is an alias of the storage: it undoes a move to another device as well.
            self._placed.append((tensor, tensor.data, place, size, held))
        self._tensors.clear()

    def is_large_changed(self) -> bool:
        """Whether any of the large arrays is not what it was."""
        return any(
            _differs(place, held.data, size)
            for (place, size), (_, held) in self._arrays.items()
            if size > LARGE
        )

    def restore(self, *, large: bool) -> None:
        """Puts everything back; the large arrays only where that is asked for."""
        for (place, size), (_, held) in self._arrays.items():
            if (large or size <= LARGE) and _differs(place, held.data, size):
                ctypes.memmove(place, held.data, size)
        for tensor, alias, place, size, data in self._placed:
            if tensor.data_ptr() != place:
                tensor.data = alias
                if alias.data_ptr() != place:  # the storage itself was replaced: by its elements
                    if data is not None and alias.nbytes == size:
                        _refill(alias, data)
                    continue
            if data is not None and _differs(place, data, size):
                ctypes.memmove(place, data, size)


def _refill(alias: torch.Tensor, data: bytes) -> None:
    alias.copy_(torch.frombuffer(bytearray(data), dtype=alias.dtype).view(alias.shape))


def _held(place: int, size: int) -> _Held:
    if size < _SHARED:
        return _Held(ctypes.string_at(place, size))
    known = _known.get((place, size))
    if known is None or _differs(place, known.data, size):
        known = _known[place, size] = _Held(ctypes.string_at(place, size))
    return known


class KeptMappings:
    """What plain dictionaries held, in their order."""

    def __init__(self) -> None:
        self._groups: list[_Group] = []

    def add(self, mapping: dict[Any, Any]) -> None:
        if not self._groups or len(self._groups[-1].mappings) == _TOGETHER:
            self._groups.append(_Group())
        self._groups[-1].add(mapping)

    def restore(self) -> None:
        for group in self._groups:
            group.restore()


class _Group:
    """Some dictionaries, and their keys and values one behind the other."""

    __slots__ = ("copies", "keys", "mappings", "sizes", "values")

    def __init__(self) -> None:
        self.mappings: list[dict[Any, Any]] = []
        self.copies: list[dict[Any, Any]] = []
        self.sizes: list[int] = []
        self.keys: list[Any] = []
        self.values: list[Any] = []

    def add(self, mapping: dict[Any, Any]) -> None:
        self.mappings.append(mapping)
        self.copies.append(dict(mapping))
        self.sizes.append(len(mapping))
        self.keys += mapping
        self.values += mapping.values()

    def restore(self) -> None:
        mappings = self.mappings
        if (
            list(map(len, mappings)) == self.sizes
            and all(map(is_, chain.from_iterable(mappings), self.keys))
            and all(map(is_, chain.from_iterable(map(dict.values, mappings)), self.values))
        ):
            return
        for mapping, copy in zip(mappings, self.copies, strict=True):
            same = len(mapping) == len(copy) and all(map(is_, mapping, copy))
            if not same or not all(map(is_, mapping.values(), copy.values())):
                mapping.clear()
                mapping.update(copy)
