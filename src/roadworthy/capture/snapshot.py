"""Handing objects back as they were: values, attributes, training mode, random state."""

from __future__ import annotations

import array
import ctypes
import operator
import random
from collections import deque
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from roadworthy.capture.kept import KeptMappings, KeptMemory
from roadworthy.capture.walking import (
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
    snapshot = Snapshot(*roots)
    try:
        yield
    finally:
        snapshot.restore()


class Snapshot:
    """What the objects and the random generators are now; `restore` brings it back, any number of
    times: looking through a simulator takes longer than putting it back."""

    def __init__(self, *roots: object) -> None:
        self._undo: list[Callable[[], None]] = [_keep_random_state()]
        self._memory, self._mappings = KeptMemory(), KeptMappings()
        for value in mutable(roots):
            self._keep(value)
        self._memory.done()

    def _keep(self, value: Any) -> None:
        kind = kind_of(value)
        if kind == LEAF:
            if isinstance(value, torch.nn.Parameter):
                self._mappings.add(vars(value))  # people hang things on their weights
            if not isinstance(value, torch.Tensor) or not self._memory.add_tensor(value):
                self._undo += kept(value)
        elif type(value) is dict:
            self._mappings.add(value)
        elif kind in (OBJECT, MODULE):
            for name in slots(value):
                self._undo.append(_keep_slot(value, name))
            held = getattr(value, "__dict__", None)
            if isinstance(held, dict):
                self._mappings.add(held)
        elif kind != FOREIGN or not is_foreign_array(value):
            self._undo += kept(value)
        elif not self._memory.add_array(np.asarray(value)):  # a view: nothing is copied on the CPU
            self._undo += _keep_foreign(value)

    def restore(self, *, large: bool = True) -> None:
        """Puts everything back; without `large`, all but large arrays of other libraries."""
        for each in self._undo:
            each()
        self._memory.restore(large=large)
        self._mappings.restore()

    def is_large_changed(self) -> bool:
        """Whether any of the large arrays of other libraries is not what it was."""
        return self._memory.is_large_changed()


def kept(value: Any) -> list[Callable[[], None]]:
    """What puts the inside of `value` back as it is now."""
    if isinstance(value, torch.Tensor):
        return [_keep_tensor(value)]
    if isinstance(value, np.ndarray):
        copy = value.copy()
        return [lambda: np.copyto(value, copy) if value.flags.writeable else None]
    if is_foreign_array(value):
        return _keep_foreign(value)
    if isinstance(value, torch.jit.ScriptModule):
        training = value.training
        return [lambda: setattr(value, "training", training)]
    if isinstance(value, MAPPINGS):
        return [_keep_mapping(value)]
    if isinstance(value, (list, deque)):
        items = list(value)
        return [lambda: _refill(value, items)]
    if isinstance(value, (bytearray, array.array)):
        return [_keep_sequence(value, value[:])]
    if isinstance(value, C_VALUES) and _is_c_number(type(value)):
        held = bytes(value)
        return [lambda: _refill_c(value, held)]
    if isinstance(value, torch.Generator):
        return [_keep_generator(value)]
    if isinstance(value, np.random.Generator):
        numpy_state = value.bit_generator.state
        return [lambda: setattr(value.bit_generator, "state", numpy_state)]
    if isinstance(value, np.random.RandomState):
        legacy_state = value.get_state()
        return [lambda: value.set_state(legacy_state)]
    if isinstance(value, random.Random) and not isinstance(value, random.SystemRandom):
        python_state = value.getstate()
        return [lambda: value.setstate(python_state)]
    if isinstance(value, set):
        members = set(value)
        return [lambda: _refill_set(value, members)]
    if isinstance(value, NEVER_ENTERED):
        return []
    parts = [_keep_slot(value, name) for name in slots(value)]
    if isinstance(getattr(value, "__dict__", None), dict):
        parts.append(_keep_mapping(vars(value)))
    return parts


def _keep_foreign(value: Any) -> list[Callable[[], None]]:
    memory = np.asarray(value)  # a view: nothing is copied on the CPU
    if not memory.size or not memory.flags.writeable:
        return []
    if memory.nbytes <= SMALL:
        return [_keep_small(memory)]
    copy = memory.copy()
    return [lambda: np.copyto(memory, copy)]


def _keep_small(memory: Array) -> Callable[[], None]:
    """A few numbers: to look whether they are still the same costs less than to copy them."""
    held, copy = memory.tobytes(), memory.copy()

    def restore() -> None:
        if memory.tobytes() != held:
            np.copyto(memory, copy)

    return restore


def _keep_sequence(value: Any, items: Any) -> Callable[[], None]:
    def restore() -> None:
        value[:] = items

    return restore


def _is_c_number(kind: Any) -> bool:
    """Whether a type of ctypes is a number, or an array of numbers."""
    while isinstance(getattr(kind, "_type_", None), type):
        kind = kind._type_
    return getattr(kind, "_type_", "") in tuple(_C_NUMBERS)


def _refill_c(value: Any, held: bytes) -> None:
    ctypes.memmove(ctypes.addressof(value), held, len(held))


def _keep_tensor(tensor: torch.Tensor) -> Callable[[], None]:
    if not has_values(tensor):
        return lambda: None
    # `data` is an alias of the storage: it undoes a move to another device as well.
    alias = tensor.data
    refill = _refill_tensor(alias)

    def restore() -> None:
        if tensor.device != alias.device or tensor.data_ptr() != alias.data_ptr():
            tensor.data = alias
        refill()

    return restore


def _refill_tensor(alias: torch.Tensor) -> Callable[[], None]:
    copy = alias.detach().clone()
    plain = type(alias) in (torch.Tensor, torch.nn.Parameter) and not alias.is_nested
    size = alias.nbytes if plain and alias.layout == torch.strided else 0
    small = 0 < size <= SMALL and alias.device.type == "cpu" and alias.is_contiguous()
    place = alias.data_ptr() if small else 0
    # Past NumPy, for which PyTorch would never let the storage be resized again.
    held = ctypes.string_at(place, size) if place else b""

    def refill() -> None:
        if place and alias.data_ptr() == place:
            if ctypes.string_at(place, size) != held:
                ctypes.memmove(place, held, size)
        elif not same(alias, copy):
            alias.copy_(copy)

    return refill


def _keep_generator(generator: torch.Generator) -> Callable[[], None]:
    state = generator.get_state()

    def restore() -> None:
        generator.set_state(state)

    return restore


def _keep_mapping(mapping: MutableMapping[Any, Any]) -> Callable[[], None]:
    items = dict(mapping)
    keys, held = list(items), list(items.values())

    def restore() -> None:
        if list(mapping) != keys or not all(map(operator.is_, mapping.values(), held)):
            mapping.clear()
            mapping.update(items)

    return restore


def _refill(container: list[Any] | deque[Any], items: list[Any]) -> None:
    container.clear()
    container.extend(items)


def _refill_set(container: set[Any], members: set[Any]) -> None:
    container.clear()
    container.update(members)


def _keep_slot(owner: object, name: str) -> Callable[[], None]:
    value = getattr(owner, name)

    def restore() -> None:
        # What was not moved may not let itself be set: sympy's Zero has its `q` from its class.
        if getattr(owner, name, None) is not value:
            # Past the __setattr__ of a frozen dataclass: what is put back was there before.
            object.__setattr__(owner, name, value)

    return restore


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
