"""What a call can reach, slot by slot: attributes, items, closures, defaults, classes, globals."""

from __future__ import annotations

import gc
import sys
import types
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from roadworthy.errors.lines import is_authors_class
from roadworthy.inspection.iterators import Guard
from roadworthy.inspection.putting_back import (
    ClassAttribute,
    Default,
    Holder,
    Item,
    Member,
    Variable,
)
from roadworthy.inspection.walking import depth_first, is_foreign_array, is_tensordict

MODULE_INTERNALS = ("_parameters", "_buffers", "_modules")
# Values without an inside: two that are equal are the same.
ATOMS = (
    type(None), bool, int, float, complex, str, bytes, range, slice, np.generic,
    torch.dtype, torch.device, torch.Size, torch.layout, type(Ellipsis), type(NotImplemented),
)  # fmt: skip
FUNCTIONS = (types.FunctionType, types.MethodType, staticmethod, classmethod, property)
_BUILT_IN = (
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
    types.GetSetDescriptorType, types.MemberDescriptorType, types.ClassMethodDescriptorType,
)  # fmt: skip
_IN_C = (types.MethodDescriptorType, types.WrapperDescriptorType)
_HEAP_TYPE, _IMMUTABLE = 1 << 9, 1 << 8  # Py_TPFLAGS_HEAPTYPE, Py_TPFLAGS_IMMUTABLETYPE
# Symbols of sympy never change, but for what they remember of themselves, such as their hash.
_NEVER_ENTERED = ("typing", "_pytest", "pytest", "sympy", "mpmath")

# The parent of what nothing else that is reached holds.
OUTSIDE = "<outside>"


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """A value, the name of the place that holds it, who can put another there, what it is part of.

    Nobody can where C code holds it, or a tuple, or a class that no one may change.
    """

    name: str
    value: Any
    holder: Holder | None
    parent: str


@dataclass(slots=True, eq=False)
class Reach:
    """Everything that can be reached from some roots; `names` are those that their code says."""

    names: frozenset[str] = frozenset()
    slots: dict[str, Slot] = field(default_factory=dict)
    _seen: dict[int, Any] = field(default_factory=dict)

    def walk(self, roots: Iterable[Slot]) -> Iterator[Slot]:
        """Each slot below the roots that was not met before, holders before what they hold."""
        return depth_first(list(roots)[::-1], self._seen, self._enter)

    def _enter(self, slot: Slot) -> Iterable[Slot] | None:
        if slot.name in self.slots:
            return None
        self.slots[slot.name] = slot
        value = slot.value
        if isinstance(value, ATOMS) or id(value) in self._seen:
            return ()
        self._seen[id(value)] = value
        return self._last_first(slot)

    def _last_first(self, slot: Slot) -> Iterator[Slot]:
        """What is inside, looked for when whoever was given the slot is done with it."""
        yield from list(self._inside(slot))[::-1]

    def holds(self, value: object) -> bool:
        """Whether a value was met."""
        return id(value) in self._seen

    def _inside(self, slot: Slot) -> Iterator[Slot]:
        name, value = slot.name, slot.value
        if type(value) is Guard:
            return
        if isinstance(value, dict):
            for key, each in list(value.items()):
                yield Slot(_below(name, key), each, Item(value, key), name)
        elif isinstance(value, (list, deque)):
            for index, each in enumerate(list(value)):
                yield Slot(f"{name}[{index}]", each, Item(value, index), name)
        elif isinstance(value, (tuple, set, frozenset)):
            for index, each in enumerate(value):
                yield Slot(f"{name}[{index}]", each, None, name)
        elif isinstance(value, types.ModuleType):
            yield from self._named(name, value, vars(value))
        elif isinstance(value, type):
            yield from self._class(name, value)
        elif isinstance(value, FUNCTIONS):
            yield from _function(name, value)
        elif isinstance(value, types.CellType):
            yield from _cell(name, value)
        elif isinstance(value, weakref.ReferenceType):
            yield Slot(f"{name}()", value(), None, name)
        elif isinstance(value, ContextVar):
            yield Slot(f"{name}.get()", value.get(None), None, name)
        elif isinstance(value, types.GeneratorType):
            local = value.gi_frame.f_locals if value.gi_frame is not None else {}
            for key, each in local.items():
                yield Slot(f"{name}.{key}", each, None, name)
        elif type(value).__module__.partition(".")[0] == "logging":
            # Loggers know every logger and every handler of the process.
            yield from self._named(name, value, vars(value))
        elif not _is_closed(value) and not is_foreign_array(value):
            # A simulator is hundreds of arrays of thousands of attributes, none of which moves.
            yield from self._object(name, value)

    def _object(self, name: str, value: Any) -> Iterator[Slot]:
        yield from _slots(name, value)
        yield from _attributes(name, value)
        for kind in type(value).__mro__:
            if is_written_here(kind):
                yield Slot(kind.__qualname__, kind, None, OUTSIDE)
        known = isinstance(value, (torch.Tensor, np.ndarray, torch.nn.Module))
        if not known and not is_plain(value):
            # What C code holds has no names: a partial, a cache, an iterator.
            for index, each in enumerate(gc.get_referents(value)):
                if not isinstance(each, (type, types.ModuleType)):
                    yield Slot(f"{name}.<{index}>", each, None, name)

    def _class(self, name: str, kind: type) -> Iterator[Slot]:
        if not is_written_here(kind):
            yield from self._named(name, kind, vars(kind))
            return
        for key, each in list(vars(kind).items()):
            dunder = key.startswith("__") and key.endswith("__")
            if not dunder or isinstance(each, FUNCTIONS):
                yield Slot(f"{name}.{key}", each, ClassAttribute(kind, key), name)

    def _named(self, name: str, holder: Any, held: Any) -> Iterator[Slot]:
        """Of a module, a logger, a class of a library: only what the code of the call says."""
        for key in self.names:
            if key in held and not isinstance(held[key], (*FUNCTIONS, *_BUILT_IN)):
                inside: Holder | None = Item(held, key)
                if isinstance(holder, type):
                    fixed = bool(holder.__flags__ & _IMMUTABLE)
                    inside = None if fixed else ClassAttribute(holder, key)
                yield Slot(f"{name}.{key}", held[key], inside, name)


def is_plain(value: object) -> bool:
    """Whether an object is an instance of a class that was written in Python."""
    kind = type(value)
    if not kind.__flags__ & _HEAP_TYPE or kind.__flags__ & _IMMUTABLE:
        return False
    # A class in C has methods in C; one in Python inherits them at most.
    return not any(isinstance(each, _IN_C) for each in vars(kind).values())


def is_written_here(kind: type) -> bool:
    """Whether a class is the author's: neither a library's nor Python's."""
    package = kind.__module__.partition(".")[0]
    return package not in sys.stdlib_module_names and is_authors_class(kind)


def root(name: str, value: Any) -> Slot:
    """A slot that nothing holds."""
    return Slot(name, value, None, OUTSIDE)


def function_roots(function: types.FunctionType) -> Iterator[Slot]:
    """What a function holds itself, and the globals that its code says by name."""
    yield Slot(function.__qualname__, function, None, OUTSIDE)
    held = function.__globals__
    module = str(held.get("__name__", "")).rpartition(".")[2]
    for key in sorted(names_in(function.__code__)):
        if key in held:
            yield Slot(f"{module}.{key}", held[key], Item(held, key), OUTSIDE)


def names_in(code: types.CodeType) -> set[str]:
    """The names that a code says, as names or as texts, nested functions included."""
    said = {*code.co_names}
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            said |= names_in(each)
        elif isinstance(each, str) and each.isidentifier():
            said.add(each)
    return said


def _function(name: str, value: Any) -> Iterator[Slot]:
    if isinstance(value, types.MethodType):
        yield Slot(f"{name}.__self__", value.__self__, None, name)
        value = value.__func__
    elif isinstance(value, property):
        for part in ("fget", "fset", "fdel"):
            if getattr(value, part) is not None:
                yield Slot(f"{name}.{part}", getattr(value, part), None, name)
        return
    elif isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if not isinstance(value, types.FunctionType):
        return
    for key, each in vars(value).items():
        yield Slot(f"{name}.{key}", each, Item(vars(value), key), name)
    code = value.__code__
    arguments = code.co_varnames[: code.co_argcount]
    defaults = value.__defaults__ or ()
    for index, (key, each) in enumerate(
        zip(arguments[len(arguments) - len(defaults) :], defaults, strict=True)
    ):
        yield Slot(f"{name}.{key}", each, Default(value, index), name)
    keyword_only = value.__kwdefaults__ or {}
    for key, each in keyword_only.items():
        yield Slot(f"{name}.{key}", each, Item(keyword_only, key), name)
    for key, cell in zip(code.co_freevars, value.__closure__ or (), strict=False):
        yield from _cell(f"{name}.{key}", cell, name)


def _cell(name: str, cell: Any, parent: str = "") -> Iterator[Slot]:
    try:
        value = cell.cell_contents
    except ValueError:  # empty
        return
    yield Slot(name, value, Variable(cell), parent)


def _attributes(name: str, value: Any) -> Iterator[Slot]:
    held = getattr(value, "__dict__", None)
    if not isinstance(held, dict):
        return
    if is_tensordict(value):
        yield from _tensordict(name, held)
        return
    if isinstance(value, torch.nn.Module):
        # A parameter's path is the one a user would type: `net.0.weight`.
        for internal in MODULE_INTERNALS:
            inner = held.get(internal) or {}
            for key, each in list(inner.items()):
                yield Slot(_below(name, key), each, Item(inner, key), name)
    for key, each in list(held.items()):
        if not (key in MODULE_INTERNALS and isinstance(value, torch.nn.Module)):
            yield Slot(_below(name, key), each, Item(held, key), name)


def _tensordict(name: str, held: dict[str, Any]) -> Iterator[Slot]:
    """What a TensorDict holds under its keys; the rest are caches, and notes on who locked it."""
    if "_param_td" in held:
        yield from _tensordict(name, vars(held["_param_td"]))
    inner = held.get("_tensordict", {})
    for key, each in list(inner.items()):
        yield Slot(_below(name, key), each, Item(inner, key), name)
    for index, each in enumerate(held.get("tensordicts", ())):
        yield Slot(f"{name}[{index}]", each, None, name)


def _slots(name: str, value: Any) -> Iterator[Slot]:
    """The attributes that an object keeps outside of its `__dict__`."""
    for kind in type(value).__mro__:
        said = vars(kind).get("__slots__", ())
        for key in [said] if isinstance(said, str) else list(said):
            mangled = f"_{kind.__name__.lstrip('_')}{key}" if key.startswith("__") else key
            descriptor = vars(kind).get(mangled)
            if isinstance(descriptor, types.MemberDescriptorType):
                try:
                    each = descriptor.__get__(value)
                except AttributeError:  # not set
                    continue
                yield Slot(_below(name, key), each, Member(descriptor, value), name)


def _is_closed(value: Any) -> bool:
    """Whether nothing inside of an object is of interest."""
    closed = (types.BuiltinFunctionType, types.CodeType, types.FrameType)
    return (
        type(value) is Guard
        or isinstance(value, closed)
        or type(value).__module__.partition(".")[0] in _NEVER_ENTERED
    )


def _below(name: str, key: Any) -> str:
    return f"{name}.{key}" if name else str(key)
