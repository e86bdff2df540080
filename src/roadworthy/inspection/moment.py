"""What every slot holds at one moment, and which slots a call has written since."""

from __future__ import annotations

import array
import io
import random
import types
import warnings
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from roadworthy.inspection.reach import ATOMS, OUTSIDE, Reach, Slot, is_plain
from roadworthy.inspection.snapshot import has_values, same
from roadworthy.inspection.walking import C_VALUES

_BUFFERS = (bytearray, memoryview, array.array, *C_VALUES)
# Tokens that tell what a value is, whichever object it is.
_VALUES = ("atom", "array", "tensor")
# Types of C code that tell where they are by `repr` or `__reduce__`: counters, iterators, views.
_TELLING = ("builtins", "itertools", "_ctypes", "ctypes", "collections")


@dataclass(frozen=True, slots=True, eq=False)
class Token:
    """What tells a value from another: which object it is, and what it holds itself."""

    kind: str
    identity: Any
    inside: Any = None

    def same(self, other: Token) -> bool:
        if self.kind != other.kind or self.identity is not other.identity:
            return False
        if self.kind == "tensor":
            (version, values), (later, values_later) = self.inside, other.inside
            return bool(version == later) and same(values, values_later)
        if self.kind == "array":
            return same(self.inside, other.inside)
        if self.kind == "list" and len(self.inside) == len(other.inside):
            # One item that differs is told by its own slot.
            differing = sum(a != b for a, b in zip(self.inside, other.inside, strict=True))
            return bool(differing <= 1)
        return bool(self.inside == other.inside)

    def alike(self, other: Token) -> bool:
        """Whether two values are equal, be they one object or two; objects and containers are."""
        if self.kind not in _VALUES or self.kind != other.kind:
            return True
        if self.kind == "atom":
            return self.identity is other.identity and bool(self.inside == other.inside)
        one, two = (
            each.inside if each.kind == "array" else each.inside[1] for each in (self, other)
        )
        return same(one, two)


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """Slot name → the slot, and the token of its value."""

    reach: Reach
    tokens: dict[str, Token]

    def written_until(self, after: Moment) -> list[Slot]:
        """The outermost slots that are not what they were, as `after` knows them."""
        written: dict[str, Slot] = {}
        for name in dict.fromkeys([*self.tokens, *after.tokens]):
            slot = after.reach.slots.get(name) or self.reach.slots[name]
            if _inside_written(slot, written, after.reach):
                continue
            one, other = self.tokens.get(name), after.tokens.get(name)
            if one is None or other is None or not one.same(other):
                written[name] = slot
        return list(written.values())

    def otherwise_in(self, other: Moment) -> list[Slot]:
        """The slots that both moments have with different numbers, as `other` knows them."""
        return [
            other.reach.slots[name]
            for name, token in self.tokens.items()
            if name in other.tokens and not token.alike(other.tokens[name])
        ]

    def beside(self, slots: Iterable[Slot], written: Iterable[Slot]) -> list[Slot]:
        """The slots that are neither among the written ones nor inside of one, each once."""
        known = {each.name: each for each in written}
        named = {each.name: each for each in slots if each.name not in known}
        return [each for each in named.values() if not _inside_written(each, known, self.reach)]


def moment(roots: Callable[[], Iterable[Slot]], names: frozenset[str]) -> Moment:
    """What can be reached from the roots now."""
    reach = Reach(names)
    tokens = {slot.name: _token(slot.value) for slot in reach.walk(roots())}
    return Moment(reach, tokens)


def _inside_written(slot: Slot, written: dict[str, Slot], reach: Reach) -> bool:
    while slot.parent != OUTSIDE:
        if slot.parent in written:
            return True
        above = reach.slots.get(slot.parent)
        if above is None:
            return False
        slot = above
    return False


def _token(value: Any) -> Token:
    if isinstance(value, ATOMS):
        return Token("atom", type(value), _member(value))
    if isinstance(value, torch.Tensor):
        version = None if value.is_inference() else value._version
        return Token("tensor", value, (version, _copied(value)))
    if isinstance(value, np.ndarray):
        return Token("array", value, value.copy())
    if isinstance(value, dict):
        return Token("dict", value, tuple(_member(key) for key in value))
    if isinstance(value, (list, deque)):
        kind = "list" if isinstance(value, list) else "deque"
        return Token(kind, value, tuple(_member(each) for each in value))
    if isinstance(value, tuple):
        return Token("tuple", type(value), tuple(_member(each) for each in value))
    if isinstance(value, (set, frozenset)):
        return Token("set", value, frozenset(_member(each) for each in value))
    return Token("object", value, _told(value))


def _copied(value: torch.Tensor) -> torch.Tensor | None:
    readable = has_values(value) and value.layout == torch.strided
    return value.detach().clone() if readable else None


def _member(value: Any) -> Any:
    """A value as part of a token: an atom itself, of everything else which object it is."""
    if isinstance(value, ATOMS):
        # NaN is not equal to itself, True is equal to 1.
        return type(value), repr(value) if isinstance(value, (float, np.generic)) else value
    if isinstance(value, tuple):
        return tuple(_member(each) for each in value)
    return id(value)  # cannot be lent to another object: the walk keeps what it has seen


def _told(value: Any) -> Any:
    """What an object that C code keeps says of its inside."""
    if isinstance(value, random.Random) and not isinstance(value, random.SystemRandom):
        return value.getstate()
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, np.random.RandomState):
        return repr(value.get_state(legacy=False))
    if isinstance(value, torch.Generator):
        return value.get_state().numpy().tobytes()
    if isinstance(value, types.GeneratorType):
        return None if value.gi_frame is None else value.gi_frame.f_lasti
    if isinstance(value, _BUFFERS):
        return bytes(value)
    if isinstance(value, io.StringIO):
        return None if value.closed else (value.getvalue(), value.tell())
    if isinstance(value, io.IOBase):
        return _or_none(value.tell)
    code = (type, types.ModuleType, types.FunctionType, types.CellType, torch.nn.Module)
    if is_plain(value) or isinstance(value, code) or type(value).__module__ not in _TELLING:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # iterators will one day stop saying where they are
        return repr(value), repr(_or_none(lambda: value.__reduce__()))


def _or_none(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except Exception:  # closed files, objects that cannot be pickled
        return None
