"""Walking through objects: everything that attributes and containers lead to."""

from __future__ import annotations

import array
import ctypes
import functools
import random
import types
from collections import UserDict, deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch

NEVER_ENTERED = (
    torch.Tensor, torch.dtype, torch.device, torch.Generator,
    np.random.Generator, np.random.RandomState, random.Random,
    type, types.ModuleType, types.FunctionType, types.MethodType, types.BuiltinFunctionType,
    torch.jit.ScriptFunction,
)  # fmt: skip
_MODULE_INTERNALS = ("_parameters", "_buffers", "_modules")
# Others that call themselves mappings (a TensorDict, a configuration) are entered as objects: their
# keys may give new views at every question, or refuse to be set.
MAPPINGS = (dict, UserDict)
# Where a TensorDict, or one made of parameters or of a stack, keeps what it holds.
_TENSORDICT_INTERNALS = ("_tensordict", "_param_td", "tensordicts")
# Numbers that C code can share; Python sees them as bytes.
C_VALUES = (ctypes._SimpleCData, ctypes.Array, ctypes.Structure, ctypes.Union)
# An environment can hold a whole simulator; past this many objects the rest is left alone.
MOST_OBJECTS = 200_000

# What cannot change, by its exact type: an object of a class that inherits from these can.
_ATOMS = frozenset(
    (
        bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range, slice, type,
        types.ModuleType, types.FunctionType, types.MethodType, types.BuiltinFunctionType,
        torch.dtype, torch.device, torch.Size,
    )
)  # fmt: skip

_NUMBERS = frozenset((bool, int, float, type(None)))
# What keeps something besides its attributes.
_WITH_CONTENTS = (np.ndarray, bytearray, array.array, set, *C_VALUES)

# How to get from an object to one that it holds: ("attribute", name) or ("item", key).
ATTRIBUTE, ITEM = "attribute", "item"
Key = tuple[str, Any]
Keys = tuple[Key, ...]


def walk(root: object, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every value reachable from `root` through attributes and containers, with its path."""
    stack: list[tuple[str, Any]] = [(name, root)]
    seen: set[int] = set()
    while stack and len(seen) < MOST_OBJECTS:
        path, value = stack.pop()
        key = id(value)
        if key in seen and not is_number(value):
            continue
        seen.add(key)
        yield path, value
        if type(value) not in _ATOMS:
            children = [(inside, each) for inside, _, each in _children(path, value)]
            children.reverse()
            stack += children


def places(root: object, name: str = "") -> Iterator[tuple[str, Keys, Any]]:
    """As `walk`, with the keys that lead to each value: paths are for people."""
    stack: list[tuple[str, Keys, Any]] = [(name, (), root)]
    seen: set[int] = set()
    while stack and len(seen) < MOST_OBJECTS:
        path, keys, value = stack.pop()
        key = id(value)
        if key in seen and not is_number(value):
            continue
        seen.add(key)
        yield path, keys, value
        if type(value) not in _ATOMS:
            children = [(p, (*keys, key), each) for p, key, each in _children(path, value)]
            stack.extend(reversed(children))


def held(root: object) -> Iterator[tuple[str, Any]]:
    """The tensors, arrays and numbers that `walk` comes to, under the same paths.

    In another order: numbers as soon as they are seen, the rest of the atoms not at all.
    """
    stack: list[tuple[str, Any]] = [("", root)]
    seen: set[int] = set()
    while stack and len(seen) < MOST_OBJECTS:
        path, value = stack.pop()
        key = id(value)
        if key in seen:
            continue
        seen.add(key)
        if isinstance(value, (torch.Tensor, np.ndarray)):
            yield path, value
        children: list[tuple[str, Any]] = []
        for inside, _, each in _children(path, value):
            if type(each) in _NUMBERS or isinstance(each, np.generic):
                yield inside, each
            elif type(each) not in _ATOMS:
                if is_number(each):  # of a class of its own, which may hold more
                    yield inside, each
                children.append((inside, each))
        children.reverse()
        stack += children


def mutable(roots: Iterable[object]) -> list[Any]:
    """Everything reachable that can change in place: as `walk`, without the paths and the atoms.

    A simulator is thousands of objects, and is walked through hundreds of times.
    """
    found: list[Any] = []
    stack: list[Any] = list(roots)
    seen: set[int] = set()
    while stack and len(seen) < MOST_OBJECTS:
        value = stack.pop()
        key = id(value)
        if type(value) in _ATOMS or key in seen:
            continue
        seen.add(key)
        found.append(value)
        kind = kind_of(value)
        children: Iterable[Any]
        if kind == LEAF:
            continue
        if type(value) is dict:
            children = value.values()
        elif kind == _SEQUENCE:
            children = value
        elif kind in (OBJECT, MODULE):
            inside = getattr(value, "__dict__", None)
            own: Iterable[Any] = inside.values() if isinstance(inside, dict) else ()
            children = [*(getattr(value, name) for name in slots(value)), *own]
        else:
            children = (each for _, _, each in _children("", value))
        stack += [each for each in children if type(each) not in _ATOMS]
    return found


def is_foreign_array(value: object) -> bool:
    """Whether this is an array of another library in the memory of the CPU, such as warp's."""
    kind = type(value)
    return (
        hasattr(kind, "__array_interface__")
        and not isinstance(value, (np.ndarray, np.generic))
        and hasattr(value, "__array_interface__")
    )


def is_number(value: object) -> bool:
    """Whether this is a number of Python or NumPy, a flag, or nothing at all."""
    return value is None or isinstance(value, (bool, int, float, np.generic))


def is_tensordict(value: object) -> bool:
    """Whether this is a TensorDict of any kind; without importing the library."""
    return _is_tensordict_class(type(value))


def _is_tensordict_class(kind: type) -> bool:
    return any(
        each.__name__ == "TensorDictBase" and each.__module__.startswith("tensordict.")
        for each in kind.__mro__
    )


# What can be inside of a value, by its class.
_SCRIPTED, _MAPPING, _SEQUENCE, LEAF, MODULE, _OTHER, FOREIGN, OBJECT = range(8)


def kind_of(value: Any) -> int:
    """One of the kinds above, as isinstance would tell it."""
    return _kind(value.__class__)


@functools.lru_cache(maxsize=16384)
def _kind(kind: type) -> int:
    """Asked of a class once: of the objects of a simulator it would be asked a million times."""
    if issubclass(kind, torch.jit.ScriptModule):
        return _SCRIPTED
    if issubclass(kind, MAPPINGS):
        return _MAPPING
    if issubclass(kind, (list, tuple, deque)):
        return _SEQUENCE
    if issubclass(kind, NEVER_ENTERED):
        return LEAF
    if hasattr(kind, "__array_interface__") and not issubclass(kind, (np.ndarray, np.generic)):
        return FOREIGN
    if issubclass(kind, torch.nn.Module):
        return MODULE
    return _OTHER if issubclass(kind, _WITH_CONTENTS) else OBJECT


@functools.lru_cache(maxsize=16384)
def _passed_over(kind: type) -> tuple[str, ...]:
    """The attributes of a class whose contents count as the object's own."""
    names = _MODULE_INTERNALS if issubclass(kind, torch.nn.Module) else ()
    return (*names, *_TENSORDICT_INTERNALS) if _is_tensordict_class(kind) else names


def _children(path: str, value: Any) -> Iterator[tuple[str, Key, Any]]:
    dot = f"{path}." if path else ""
    kind = kind_of(value)
    if kind == LEAF:
        return
    if kind == _MAPPING:
        for key, each in value.items():
            yield f"{dot}{key}", (ITEM, key), each
    elif kind == _SEQUENCE:
        for index, each in enumerate(value):
            yield f"{path}[{index}]", (ITEM, index), each
    elif kind == _SCRIPTED:
        for name, each in _scripted(value):
            yield f"{dot}{name}", (ATTRIBUTE, name), each
    elif kind != FOREIGN or not is_foreign_array(value):
        for name in slots(value):
            yield f"{dot}{name}", (ATTRIBUTE, name), getattr(value, name)
        if isinstance(getattr(value, "__dict__", None), dict):
            # A parameter's path is the one a user would type: `net.0.weight`.
            skipped = _passed_over(value.__class__)
            for name, each in vars(value).items():
                yield (path if name in skipped else f"{dot}{name}"), (ATTRIBUTE, name), each


def _scripted(module: torch.jit.ScriptModule) -> Iterator[tuple[str, Any]]:
    """What a scripted module holds: its other attributes belong to TorchScript."""
    yield from module.named_parameters(recurse=False)
    yield from module.named_buffers(recurse=False)
    yield from module.named_children()


def slots(value: object) -> list[str]:
    """The attributes that an object keeps outside of its `__dict__`."""
    kind: Any = type(value)
    return [name for name in _slot_names(kind) if hasattr(value, name)]


@functools.lru_cache(maxsize=4096)
def _slot_names(kind: type) -> tuple[str, ...]:
    names: list[str] = []
    for each in kind.__mro__:
        slots = vars(each).get("__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    hidden = ("__dict__", "__weakref__")  # kept by Python itself
    return tuple(name for name in names if name not in hidden)
