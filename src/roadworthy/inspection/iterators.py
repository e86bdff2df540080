"""Iterators that a policy or an environment holds: put back by copies, as nothing rewinds them.

A generator cannot be copied, nor can what `re.finditer` and a few others make. While experiments
run, a guard stands where one is held, which refuses before anything is taken from it.
"""

from __future__ import annotations

import itertools
import operator
import struct
import types
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from roadworthy.errors import ExportError
from roadworthy.inspection.putting_back import Holder, Item, ObjectAttribute, is_ignored, put_back
from roadworthy.inspection.walking import slots

_TABLES: tuple[Iterator[Any], ...] = (
    iter({}), iter({}.values()), iter({}.items()), reversed({}), iter(set()),
)  # fmt: skip
_OF_TABLES = frozenset(map(type, _TABLES))
_COPYABLE = _OF_TABLES | frozenset(
    (
        *map(type, ([].__iter__(), reversed([]), iter(()), iter(""), iter("é"), iter(b""))),
        *map(type, (iter(bytearray()), iter(range(0)), iter(range(1 << 70)))),
        *(zip, map, filter, enumerate, reversed),
        *(each for each in vars(itertools).values() if isinstance(each, type)),
        type(itertools.tee(())[0]),
    )
)
# They say neither where they are nor how they could be made anew.
_SILENT: tuple[Iterator[Any], ...] = (
    iter(int, 1), iter(memoryview(b"")), struct.iter_unpack("b", b""),
)  # fmt: skip
_KINDS = _COPYABLE | {types.GeneratorType, *map(type, _SILENT)}


def is_iterator(value: object) -> bool:
    """Whether a value is an iterator of C code, or a generator: all that it holds goes with it."""
    return type(value) in _KINDS


def among(values: Iterable[object]) -> list[Any]:
    """The iterators among some objects, each once."""
    return list({id(each): each for each in values if is_iterator(each)}.values())


def holders_in(values: Iterable[object], wanted: Iterable[object]) -> Iterator[tuple[Any, Holder]]:
    """Each of the wanted objects with who holds it, as often as it is held."""
    ids = set(map(id, wanted))
    for value in values:
        inside: Any = value if isinstance(value, dict) else getattr(value, "__dict__", None)
        if isinstance(value, (list, deque)):
            items: Iterable[tuple[Any, Any]] = enumerate(list(value))
            inside = value
        else:
            items = list(inside.items()) if isinstance(inside, dict) else ()
        yield from ((each, Item(inside, key)) for key, each in items if id(each) in ids)
        for name in slots(value):
            holder = ObjectAttribute(value, name)
            if id(holder.get()) in ids:
                yield holder.get(), holder


@dataclass(slots=True, eq=False)
class _Kept:
    """An iterator, where it was, a copy of it if there can be one, and who holds it."""

    name: str
    iterator: Any
    position: Any
    copy: Any
    holders: list[Holder] = field(default_factory=list)

    def unguard(self) -> None:
        for holder in self.holders if self.copy is None else ():
            put_back(holder, self.iterator)

    def put_back(self) -> bool:
        """Puts a copy where the iterator is held, if it has moved; False where that cannot be."""
        self.unguard()
        if _position(self.iterator) == self.position:
            return True
        if self.copy is None or not self.holders:
            return False
        fresh = _copied(self.copy)
        return not [each for each in self.holders if not put_back(each, fresh)]


class KeptIterators:
    """Where iterators are; they come back there as often as that is asked for."""

    def __init__(self) -> None:
        self._kept: dict[int, _Kept] = {}

    def add(self, name: str, iterator: Any, holder: Holder | None, *, guarded: bool) -> None:
        """Keeps an iterator of those `among` finds; with a guard, where it cannot be copied."""
        if id(iterator) not in self._kept:
            position, copy = _position(iterator), _copied(iterator)
            self._kept[id(iterator)] = _Kept(name, iterator, position, copy)
        kept = self._kept[id(iterator)]
        if holder is None:
            return
        kept.holders.append(holder)
        if guarded and kept.copy is None:
            put_back(holder, Guard(name, iterator))

    def unguard(self) -> None:
        """Lets whoever holds them take from them again."""
        for kept in self._kept.values():
            kept.unguard()

    def put_back(self) -> list[str]:
        """The names of those that moved and cannot come back; the others are where they were."""
        kept = self._kept.values()
        return [each.name for each in kept if not each.put_back()]


class Guard:
    """Stands where a generator is held, and refuses before it is asked for anything.

    Nobody who walks through objects sees the generator behind it.
    """

    __slots__ = ("__generator", "__name")

    def __init__(self, name: str, generator: Any) -> None:
        self.__name, self.__generator = name, generator

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # so that isinstance answers as for the generator
        return type(self.__generator)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__generator, name)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self._refuse()
        return next(self.__generator)

    def send(self, value: Any) -> Any:
        self._refuse()
        return self.__generator.send(value)

    def close(self) -> None:
        self._refuse()
        self.__generator.close()

    def _refuse(self) -> None:
        if is_ignored(self.__name):
            return
        name = self.__name.partition(".")[2]
        raise ExportError(
            "a call writes it, and a later call reads it: what this iterator gives cannot be given "
            "back, so nothing was taken from it",
            code="RW112",
            where=self.__name,
            hint="keep what it gives in a list, and the place in it as a tensor attribute of the "
            "module, which is declared: memory={…}; if what it gives does not matter, and may be "
            f"used up: ignore=[{name!r}]",
        )


def _reduced(iterator: Any) -> Any:
    """How Python would make an iterator anew; None where it does not say."""
    if type(iterator) not in _COPYABLE:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of itertools will one day not say it any more
        try:
            return iterator.__reduce__()
        except TypeError:
            return None


def _position(value: Any) -> Any:
    """What tells whether an iterator has moved: of what it goes over, where it is there."""
    if isinstance(value, types.GeneratorType):
        frame = value.gi_frame
        variables = {} if frame is None else frame.f_locals
        return frame and frame.f_lasti, {key: id(each) for key, each in variables.items()}
    if type(value) in _OF_TABLES:
        return operator.length_hint(value)
    reduced = _reduced(value)
    if reduced is not None:
        return type(value), *map(_position, reduced[1:])
    if isinstance(value, tuple):
        return tuple(map(_position, value))
    return value if isinstance(value, (int, float, str, bytes)) else id(value)


def _copied(iterator: Any) -> Any:
    """An iterator that goes on where another one is; None where there can be none."""
    if hasattr(iterator, "__copy__"):  # those that `tee` makes
        return iterator.__copy__()
    reduced = _reduced(iterator)
    if reduced is None:
        return None
    make, given, *state = reduced
    arguments = [_copied(each) if isinstance(each, Iterator) else each for each in given]
    if any(one is None and other is not None for one, other in zip(arguments, given, strict=True)):
        return None
    made = make(*arguments)
    if state and state[0] is not None:
        inside = _copied_state(state[0])
        if inside is None:
            return None
        made.__setstate__(inside)
    return made


def _copied_state(state: Any) -> Any:
    """What an iterator has seen so far: its lists grow, and it may go on inside of others."""
    if isinstance(state, Iterator):
        return _copied(state)
    if isinstance(state, tuple):
        parts = [_copied_state(each) for each in state]
        lacking = any(a is None and b is not None for a, b in zip(parts, state, strict=True))
        return None if lacking else tuple(parts)
    return list(state) if isinstance(state, list) else state
