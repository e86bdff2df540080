"""Walking through objects: everything that attributes and containers lead to."""

from __future__ import annotations

import array
import ctypes
import functools
import random
import types
from collections import UserDict, deque
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, TypeVar

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
# A value that is to be entered, with what a walk knows of it.
Node = TypeVar("Node")


def depth_first(
    stack: list[Node], met: Sized, enter: Callable[[Node], Iterable[Node] | None]
) -> Iterator[Node]:
    """Each node of the stack, the last one first, and all that is inside of it before the next.

    `enter` adds to what was `met`. It says what is inside of a node, the first of it last, or None
    where the node is to be passed over.
    """
    while stack and len(met) < MOST_OBJECTS:
        node = stack.pop()
        inside = enter(node)
        if inside is not None:
            yield node
            stack += inside


def walk(root: object, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every value reachable from `root` through attributes and containers, with its path.

    Each once, but numbers as often as they are held.
    """

    def inside(path: str, value: Any) -> list[tuple[str, Any]]:
        return [(below, each) for below, _, each in _children(path, value)]

    return _with_atoms((name, root), inside)


def places(root: object) -> Iterator[tuple[str, Keys, Any]]:
    """As `walk`, with the keys that lead to each value: paths are for people."""

    def inside(path: str, keys: Keys, value: Any) -> list[tuple[str, Keys, Any]]:
        return [(below, (*keys, key), each) for below, key, each in _children(path, value)]

    return _with_atoms(("", (), root), inside)


def _with_atoms(node: Node, inside: Callable[..., list[Node]]) -> Iterator[Node]:
    met: set[int] = set()

    def enter(node: Any) -> Iterable[Node] | None:
        value = node[-1]
        if id(value) in met and not is_number(value):
            return None
        met.add(id(value))
        return () if type(value) in _ATOMS else inside(*node)[::-1]

    return depth_first([node], met, enter)


def held(root: object) -> Iterator[tuple[str, Any]]:
    """The tensors, arrays and numbers that `walk` comes to, under the same paths.

    In another order: numbers as soon as they are seen, the rest of the atoms not at all.
    """
    met: set[int] = set()
    numbers: list[tuple[str, Any]] = []

    def enter(node: tuple[str, Any]) -> list[tuple[str, Any]] | None:
        path, value = node
        if id(value) in met:
            return None
        met.add(id(value))
        objects: list[tuple[str, Any]] = []
        for below, _, each in _children(path, value):
            if type(each) in _NUMBERS or isinstance(each, np.generic):
                numbers.append((below, each))
            elif type(each) not in _ATOMS:
                if is_number(each):  # of a class of its own, which may hold more
                    numbers.append((below, each))
                objects.append((below, each))
        objects.reverse()
        return objects

    for path, value in depth_first([("", root)], met, enter):
        if isinstance(value, (torch.Tensor, np.ndarray)):
            yield path, value
        if numbers:
            yield from numbers
            numbers.clear()


def mutable(roots: Iterable[object]) -> list[Any]:
    """Everything reachable that can change in place: as `walk`, without the paths and the atoms.

    A simulator is thousands of objects, and is walked through hundreds of times.
    """
    met: set[int] = set()

    def enter(value: Any) -> list[Any] | None:
        if id(value) in met:
            return None
        met.add(id(value))
        return [each for each in _values(value) if type(each) not in _ATOMS]

    return list(depth_first([each for each in roots if type(each) not in _ATOMS], met, enter))


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
    """What is inside of a value: the path, the key that leads to it, and itself."""
    kind = _kind(value.__class__)
    if kind == LEAF:
        return
    dot = f"{path}." if path else ""
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
        actual: Any = type(value)  # what a proxy calls its class has other slots
        if _slot_names(actual):
            for name in slots(value):
                yield f"{dot}{name}", (ATTRIBUTE, name), getattr(value, name)
        own = getattr(value, "__dict__", None)
        if isinstance(own, dict):
            # A parameter's path is the one a user would type: `net.0.weight`.
            skipped = _passed_over(value.__class__)
            for name, each in own.items():
                yield (path if name in skipped else f"{dot}{name}"), (ATTRIBUTE, name), each


def _values(value: Any) -> Iterable[Any]:
    """The values of `_children`, without the time that paths take."""
    kind = _kind(value.__class__)
    if kind == LEAF:
        return ()
    if type(value) is dict:
        return value.values()
    if kind == _SEQUENCE:
        items: Iterable[Any] = value
        return items
    if kind not in (OBJECT, MODULE):
        return (each for _, _, each in _children("", value))
    own = getattr(value, "__dict__", None)
    attributes = own.values() if isinstance(own, dict) else ()
    actual: Any = type(value)
    if not _slot_names(actual):
        return attributes
    return [*(getattr(value, name) for name in slots(value)), *attributes]


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
