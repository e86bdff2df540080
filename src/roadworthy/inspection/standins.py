"""Stand-ins: values that note when they are used, and say nothing when they are only updated.

`steps += 1` makes another stand-in; `if steps > 300` is a use. Printing is none.
"""

from __future__ import annotations

import operator
import types
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from roadworthy.errors.lines import current_line

_DEEPEST = 6
# Methods of writers and containers that take and give nothing back.
_WRITING = (
    "write", "writelines", "flush", "append", "appendleft", "add", "extend", "clear", "put",
    "update", "log", "info", "debug", "warning", "add_scalar", "set",
)  # fmt: skip


@dataclass(slots=True)
class Ledger:
    """The line at which a stand-in was first used; empty while it was not."""

    used: bool = False
    line: str = ""
    tensors: list[torch.Tensor] = field(default_factory=list)

    def note(self) -> None:
        if not self.used:
            self.used, self.line = True, current_line()


class Noted:
    """A value whose arithmetic gives further stand-ins, and whose use is noted."""

    __slots__ = ("_ledger", "_value")

    def __init__(self, value: Any, ledger: Ledger) -> None:
        object.__setattr__(self, "_value", value)
        object.__setattr__(self, "_ledger", ledger)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # so that isinstance answers as for the value
        return type(self._value)

    def __getattr__(self, name: str) -> Any:
        if name not in _WRITING:
            self._ledger.note()
        return getattr(self._value, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._value, name, value)

    def __str__(self) -> str:
        return str(self._value)

    def __repr__(self) -> str:
        return repr(self._value)

    def __format__(self, spec: str) -> str:
        return format(self._value, spec)

    def __next__(self) -> Any:
        return Noted(next(self._value), self._ledger)

    def __iter__(self) -> Iterator[Any]:
        if hasattr(self._value, "__next__"):
            return self
        self._ledger.note()
        return iter(self._value)

    def __getitem__(self, key: Any) -> Any:
        return _derived(self._value[_bare(key)], self._ledger)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._value[_bare(key)] = _bare(value)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        bare = {name: _bare(each) for name, each in options.items() if name != "out"}
        return _derived(getattr(ufunc, method)(*map(_bare, inputs), **bare), self._ledger)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        noted = [each for each in _flat((args, kwargs or {})) if type(each) is Noted]
        for each in noted:
            each._ledger.note()
        return func(*_bare(args), **_bare(kwargs or {}))


def _bare(value: Any) -> Any:
    """The value itself, where it is a stand-in or a container of some."""
    if type(value) is Noted:
        return value._value
    if type(value) in (tuple, list):
        return type(value)(_bare(each) for each in value)
    if type(value) is dict:
        return {key: _bare(each) for key, each in value.items()}
    return value


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        for each in value:
            yield from _flat(each)
    else:
        yield value


def _derived(value: Any, ledger: Ledger) -> Any:
    if isinstance(value, torch.Tensor):
        ledger.note()
        return value
    return value if value is NotImplemented else Noted(value, ledger)


def _arithmetic(name: str, *, swapped: bool = False) -> Callable[..., Any]:
    act = getattr(operator, name)

    def method(self: Noted, *others: Any) -> Any:
        operands = (self._value, *map(_bare, others))
        return _derived(act(*(operands[::-1] if swapped else operands)), self._ledger)

    return method


def _used(act: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Noted, *others: Any) -> Any:
        self._ledger.note()
        return act(self._value, *map(_bare, others))

    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift",
              "and_", "or_", "xor", "matmul"):  # fmt: skip
    setattr(Noted, f"__{_name.strip('_')}__", _arithmetic(_name))
    setattr(Noted, f"__r{_name.strip('_')}__", _arithmetic(_name, swapped=True))
for _name in ("neg", "pos", "abs", "invert"):
    setattr(Noted, f"__{_name}__", _arithmetic(_name))
_USES: dict[str, Callable[..., Any]] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq, "ne": operator.ne, "bool": bool, "int": int, "float": float,
    "complex": complex, "index": operator.index, "len": len, "hash": hash, "round": round,
    "contains": operator.contains, "reversed": reversed, "array": np.asarray,
    "call": lambda value, *rest, **named: value(*rest, **named),
    "array_function": lambda value, func, kinds, args, named: func(*_bare(args), **_bare(named)),
    "enter": lambda value: value.__enter__(), "exit": lambda value, *how: value.__exit__(*how),
    "delitem": operator.delitem, "trunc": int, "floor": lambda value: value.__floor__(),
    "ceil": lambda value: value.__ceil__(), "divmod": divmod,
}  # fmt: skip
for _name, _act in _USES.items():
    setattr(Noted, f"__{_name}__", _used(_act))


def _container(base: type, reading: tuple[str, ...]) -> Any:
    """A class of containers of the same kind whose reading methods are a use; writing is none."""

    def noting(name: str) -> Callable[..., Any]:
        act = getattr(base, name)

        def method(self: Any, *others: Any, **named: Any) -> Any:
            self._ledger.note()
            return act(self, *others, **named)

        return method

    own = {name: noting(name) for name in reading if hasattr(base, name)}
    return type(base.__name__, (base,), own)


_ORDERED = (
    "__len__", "__iter__", "__contains__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__",
    "__ge__", "__reversed__", "__getitem__", "pop", "popleft", "index", "count", "copy", "sort",
)  # fmt: skip
_BY_KEY = (
    "__len__", "__iter__", "__contains__", "__eq__", "__ne__", "keys", "values", "items",
    "__or__", "__ror__", "__and__", "__sub__", "__xor__", "pop", "popitem", "copy", "issubset",
    "issuperset", "isdisjoint", "union", "difference", "intersection",
)  # fmt: skip


def stand_in(value: Any, ledger: Ledger, depth: int = 0) -> Any:
    """A stand-in for a value, for what it holds, and so on; tensors are listed in the ledger."""
    if value is None or depth > _DEEPEST or isinstance(value, (type, types.ModuleType)):
        return value
    if isinstance(value, torch.Tensor):
        ledger.tensors.append(value)
        return value
    if isinstance(value, torch.nn.Module):
        ledger.tensors += [*value.parameters(), *value.buffers()]
        return value
    if isinstance(value, (dict, list, deque, set)):
        return _stand_in_container(value, ledger, depth)
    if isinstance(value, tuple) and not isinstance(value, torch.Size):
        items = [stand_in(each, ledger, depth + 1) for each in value]
        return value._make(items) if hasattr(value, "_make") else tuple(items)
    if callable(value):
        return value
    held = getattr(value, "__dict__", None)
    return _copied(value, held, ledger, depth) if held is not None else Noted(value, ledger)


def _stand_in_container(value: Any, ledger: Ledger, depth: int) -> Any:
    made = _container(type(value), _BY_KEY if isinstance(value, (dict, set)) else _ORDERED)
    inside = value.values() if isinstance(value, dict) else value
    items = [
        each if isinstance(value, set) else stand_in(each, ledger, depth + 1) for each in inside
    ]
    try:
        if isinstance(value, defaultdict):
            held = made(value.default_factory)
        else:
            held = made((), value.maxlen) if isinstance(value, deque) else made()
    except TypeError:  # a class of the user's that is made in another way
        return Noted(value, ledger)
    held._ledger = Ledger()  # filling it is no use
    if isinstance(value, dict):
        for key, each in zip(value, items, strict=True):
            dict.__setitem__(held, key, each)
    elif isinstance(value, set):
        held |= value
    else:
        held += items
    held._ledger = ledger
    return held


def _copied(value: Any, held: dict[str, Any], ledger: Ledger, depth: int) -> Any:
    try:
        copy = object.__new__(type(value))
    except TypeError:  # made by C code
        return Noted(value, ledger)
    for name, each in held.items():
        copy.__dict__[name] = stand_in(each, ledger, depth + 1)
    return copy
