"""Handing objects back as they were: values, attributes, training mode, random state."""

from __future__ import annotations

import array
import ctypes
import operator
import random
from collections import deque
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch

from roadworthy.inspection.iterators import KeptIterators, among, holders_in
from roadworthy.inspection.kept import KeptMappings, KeptMemory
from roadworthy.inspection.putting_back import ObjectAttribute, Restore, put_back, tell_lost, unless
from roadworthy.inspection.walking import (
    C_VALUES,
    FOREIGN,
    LEAF,
    MAPPINGS,
    MODULE,
    NEVER_ENTERED,
    OBJECT,
    held,
    is_foreign_array,
    is_number,
    kind_of,
    mutable,
    slots,
    walk,
)
from roadworthy.spec.port import Array

# Bytes up to which an array is looked at as a whole before it is put back.
SMALL = 1 << 14
# The letters of ctypes for numbers and characters. Addresses are left alone: what they lead to may
# be gone when they are put back.
_C_NUMBERS = "cbBhHiIlLqQfdg?u"

Value = torch.Tensor | Array | bool | int | float | None


def has_values(tensor: torch.Tensor) -> bool:
    """Whether a tensor can be read: not on `meta`, nor left over from inside of a vmap."""
    return not tensor.is_meta and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def values(root: object) -> dict[str, Value]:
    """Path → a copy of every tensor, array and number below `root`."""
    found: dict[str, Value] = {}
    for path, value in held(root):
        if isinstance(value, torch.Tensor):
            found[path] = value.detach().clone() if has_values(value) else None
        else:
            found[path] = value.copy() if isinstance(value, np.ndarray) else value
    return found


def changed(before: dict[str, Value], after: dict[str, Value]) -> list[str]:
    """The paths whose value is not what it was."""
    paths = dict.fromkeys([*before, *after])
    return [path for path in paths if not same(before.get(path), after.get(path))]


@contextmanager
def preserved(*roots: object) -> Iterator[None]:
    """Whatever happens inside, the objects and the random generators come back bit for bit."""
    snapshot = Snapshot(*roots, guarded=True)
    try:
        yield
    finally:
        snapshot.restore()


class Snapshot:
    """What the objects and the random generators are now; `restore` brings it back, any number of
    times: looking through a simulator takes longer than putting it back."""

    def __init__(self, *roots: object, guarded: bool = False) -> None:
        self._roots = roots
        self._random = _keep_random_state()
        # What is kept, the name of its attribute where it is only that, and what puts it back.
        self._undo: list[tuple[Any, str, Restore]] = []
        self._memory, self._mappings = KeptMemory(), KeptMappings()
        values = mutable(roots)
        for value in values:
            self._keep(value)
        self._memory.done()
        self._iterators = KeptIterators()
        if iterators := among(values):
            for iterator, holder in [
                *holders_in(values, iterators),
                *((i, None) for i in iterators),
            ]:
                self._iterators.add(self._path(iterator), iterator, holder, guarded=guarded)

    def _keep(self, value: Any) -> None:
        kind = kind_of(value)
        if kind == LEAF:
            if isinstance(value, torch.nn.Parameter):
                self._mappings.add(vars(value))  # people hang things on their weights
            if not isinstance(value, torch.Tensor) or not self._memory.add_tensor(value):
                self._undo += [(value, "", each) for each in kept(value)]
        elif type(value) is dict:
            self._mappings.add(value)
        elif kind in (OBJECT, MODULE):
            for name in slots(value):
                self._undo.append((value, f".{name}", _keep_slot(value, name)))
            held = getattr(value, "__dict__", None)
            if isinstance(held, dict):
                self._mappings.add(held)
        elif kind != FOREIGN or not is_foreign_array(value):
            self._undo += [(value, "", each) for each in kept(value)]
        elif not self._memory.add_array(np.asarray(value)):  # a view: nothing is copied on the CPU
            self._undo += [(value, "", each) for each in _keep_foreign(value)]

    def restore(self, *, large: bool = True) -> None:
        """Puts everything back; without `large`, all but large arrays of other libraries.

        An error for what changed and cannot be put back, after all the rest was.
        """
        self._random()
        lost = [(value, name) for value, name, restore in self._undo if not restore()]
        self._memory.restore(large=large)
        self._mappings.restore()
        moved = self._iterators.put_back()
        paths = [*(f"{self._path(value)}{name}" for value, name in lost), *moved]
        tell_lost(paths, [type(root).__name__ for root in self._roots])

    def _path(self, value: object) -> str:
        """Where a value was found, as a user would type it."""
        for root in self._roots:
            for path, each in walk(root, type(root).__name__):
                if each is value:
                    return path
        return type(value).__name__

    def is_large_changed(self) -> bool:
        """Whether any of the large arrays of other libraries is not what it was."""
        return self._memory.is_large_changed()


def kept(value: Any) -> list[Restore]:
    """What puts the inside of `value` back as it is now."""
    if isinstance(value, torch.Tensor):
        return [_keep_tensor(value)]
    if isinstance(value, np.ndarray):
        return _keep_array(value)
    if is_foreign_array(value):
        return _keep_foreign(value)
    if isinstance(value, torch.jit.ScriptModule):
        return [_keep_flag(value)]
    if isinstance(value, MAPPINGS):
        return [_keep_mapping(value)]
    if isinstance(value, (list, deque)):
        return [_keep_items(value)]
    if isinstance(value, (bytearray, array.array)):
        copy = value[:]
        return [unless(lambda: value == copy, lambda: operator.setitem(value, slice(None), copy))]
    if isinstance(value, torch.Generator):
        state = value.get_state()
        return [unless(lambda: same(value.get_state(), state), lambda: value.set_state(state))]
    if isinstance(value, np.random.Generator):
        bits = value.bit_generator.state
        return [
            unless(
                lambda: repr(value.bit_generator.state) == repr(bits),
                lambda: setattr(value.bit_generator, "state", bits),
            )
        ]
    if isinstance(value, np.random.RandomState):
        legacy = value.get_state(legacy=False)
        return [
            unless(
                lambda: repr(value.get_state(legacy=False)) == repr(legacy),
                lambda: value.set_state(legacy),
            )
        ]
    if isinstance(value, random.Random) and not isinstance(value, random.SystemRandom):
        drawn = value.getstate()
        return [unless(lambda: value.getstate() == drawn, lambda: value.setstate(drawn))]
    if isinstance(value, set):
        return [_keep_members(value)]
    if isinstance(value, NEVER_ENTERED):
        return []
    parts = [_keep_slot(value, name) for name in slots(value)]
    if isinstance(getattr(value, "__dict__", None), dict):
        parts.append(_keep_mapping(vars(value)))
    if isinstance(value, C_VALUES) and _is_c_number(type(value)):
        held = bytes(value)
        parts.append(unless(lambda: bytes(value) == held, lambda: _refill_c(value, held)))
    return parts


def _keep_foreign(value: Any) -> list[Restore]:
    return _keep_array(np.asarray(value))  # a view: nothing is copied on the CPU


def _keep_array(memory: Array) -> list[Restore]:
    if not memory.size or not memory.flags.writeable:
        return []
    copy = memory.copy()
    if memory.nbytes > SMALL:
        return [partial(_overwrite, memory, copy)]  # costs less than to look whether it changed
    held = memory.tobytes()
    return [unless(lambda: memory.tobytes() == held, lambda: np.copyto(memory, copy))]


def _overwrite(memory: Array, copy: Array) -> bool:
    np.copyto(memory, copy)
    return True


def _is_c_number(kind: Any) -> bool:
    """Whether a type of ctypes is a number, or made of numbers alone."""
    fields = getattr(kind, "_fields_", None)
    if fields is not None:
        return all(_is_c_number(field[1]) for field in fields)
    inside = getattr(kind, "_type_", "")
    return _is_c_number(inside) if isinstance(inside, type) else inside in tuple(_C_NUMBERS)


def _refill_c(value: Any, held: bytes) -> None:
    ctypes.memmove(ctypes.addressof(value), held, len(held))


def _keep_flag(module: torch.jit.ScriptModule) -> Restore:
    training = module.training
    return unless(
        lambda: module.training == training, lambda: setattr(module, "training", training)
    )


def _keep_tensor(tensor: torch.Tensor) -> Restore:
    if not has_values(tensor):
        return lambda: True
    # `data` is an alias of the storage: it undoes a move to another device as well.
    alias = tensor.data
    refill = _refill_tensor(alias)

    def restore() -> bool:
        if tensor.device != alias.device or tensor.data_ptr() != alias.data_ptr():
            tensor.data = alias
        return refill()

    return restore


def _refill_tensor(alias: torch.Tensor) -> Restore:
    copy = alias.detach().clone()
    plain = type(alias) in (torch.Tensor, torch.nn.Parameter) and not alias.is_nested
    size = alias.nbytes if plain and alias.layout == torch.strided else 0
    small = 0 < size <= SMALL and alias.device.type == "cpu" and alias.is_contiguous()
    place = alias.data_ptr() if small else 0
    # Past NumPy, for which PyTorch would never let the storage be resized again.
    held = ctypes.string_at(place, size) if place else b""
    elements = unless(lambda: same(alias, copy), lambda: alias.copy_(copy))

    def refill() -> bool:
        if not place or alias.data_ptr() != place:
            return elements()
        if ctypes.string_at(place, size) != held:
            ctypes.memmove(place, held, size)
        return True

    return refill


def _keep_mapping(mapping: MutableMapping[Any, Any]) -> Restore:
    items = dict(mapping)
    keys, held = list(items), list(items.values())

    def write() -> None:
        mapping.clear()
        mapping.update(items)

    return unless(
        lambda: list(mapping) == keys and all(map(operator.is_, mapping.values(), held)), write
    )


def _keep_items(container: list[Any] | deque[Any]) -> Restore:
    items = list(container)

    def write() -> None:
        container.clear()
        container.extend(items)

    return unless(
        lambda: len(container) == len(items) and all(map(operator.is_, container, items)), write
    )


def _keep_members(container: set[Any]) -> Restore:
    members = set(container)
    held = set(map(id, members))

    def write() -> None:
        container.clear()
        container.update(members)

    return unless(lambda: set(map(id, container)) == held, write)


def _keep_slot(owner: object, name: str) -> Restore:
    holder = ObjectAttribute(owner, name)
    value = holder.get()
    # A property of the same name, that makes another value whenever it is asked, keeps none.
    return partial(put_back, holder, value) if holder.get() is value else lambda: True


def _keep_random_state() -> Callable[[], None]:
    torch_state, numpy_state, python_state = (
        torch.get_rng_state(), np.random.get_state(), random.getstate(),
    )  # fmt: skip

    def restore() -> None:
        torch.set_rng_state(torch_state)
        np.random.set_state(numpy_state)
        random.setstate(python_state)

    return restore


def same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        if not (has_values(one) and has_values(other)):
            return has_values(one) == has_values(other)
        if one.device != other.device:
            one, other = one.cpu(), other.cpu()
        if torch.equal(one, other):  # nearly always, and at a tenth of the price
            return True
        return bool(torch.equal(one.nan_to_num(), other.nan_to_num())) and bool(
            torch.equal(one.isnan(), other.isnan())
        )
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and one.tobytes() == other.tobytes()
    return type(one) is type(other) and is_number(one) and bool(one == other)
