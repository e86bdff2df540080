"""What a call returned, apart: the outputs, and the successors of what is remembered."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from roadworthy.capture.memory import Slot, Tensors
from roadworthy.capture.source import Place
from roadworthy.errors import ExportError, UsageError


def split_result(result: Any, slots: Sequence[Slot]) -> tuple[Any, Tensors]:
    """The outputs, and the memory: where it was said to stand, under its name, or at the end."""
    placed = [slot for slot in slots if slot.returned is not None]
    persisted: Tensors = {}
    for slot in placed:
        assert slot.returned is not None
        persisted |= _unpacked(slot, taken(result, slot.returned, slot.name))
    # From the end to the beginning, so that the positions of the others stay what they were.
    for place in sorted((_keys(result, s.returned) for s in placed), key=_order, reverse=True):
        result = without(result, place)
    last = [slot for slot in slots if slot.returned is None]
    rest, found = _split_last(result, last)
    return rest, persisted | found


def _split_last(result: Any, slots: Sequence[Slot]) -> tuple[Any, Tensors]:
    if not slots:
        return result, {}
    fields = as_fields(result)
    if fields is not None:
        lacking = [slot.name for slot in slots if slot.name not in fields]
        if not lacking:
            names = [slot.name for slot in slots]
            rest = {key: value for key, value in fields.items() if key not in names}
            return rest, {k: v for s in slots for k, v in _unpacked(s, fields[s.name]).items()}
        if not isinstance(result, tuple):
            raise _not_returned(lacking[0], fields, slots)
    parts = list(result) if isinstance(result, (tuple, list)) else [result]
    # (actions, (h, c)) means the same as (actions, h, c).
    if len(parts) == 2 and len(slots) > 1 and isinstance(parts[1], (tuple, list)):
        parts = [parts[0], *parts[1]]
    names = [slot.name for slot in slots]
    if len(parts) <= len(slots):
        raise ExportError(
            f"forward returns {len(parts)} values, expected the outputs and then "
            f"{len(slots)} memory values",
            where="memory",
            hint=f"end forward with: return actions, {', '.join(names)}",
        )
    outputs, memory = parts[: -len(slots)], parts[-len(slots) :]
    persisted: Tensors = {}
    for slot, value in zip(slots, memory, strict=True):
        persisted |= _unpacked(slot, value)
    return outputs[0] if len(outputs) == 1 else tuple(outputs), persisted


def _not_returned(name: str, fields: Mapping[Any, Any], slots: Sequence[Slot]) -> ExportError:
    first, *others = fields
    other = [key for key in others if key not in [slot.name for slot in slots]]
    place = f"memory={{{name!r}: rw.Argument(…, returned={other[0]!r})}}" if other else ""
    return ExportError(
        f"forward does not return the memory {name!r}",
        where="memory",
        hint=f"return its next value under that name: {{{first!r}: …, {name!r}: …}}"
        + (f", or say which it is: {place}" if place else ""),
    )


def _unpacked(slot: Slot, value: Any) -> Tensors:
    return slot.form.unpack(value, slot.name)


def as_fields(result: Any) -> dict[Any, Any] | None:
    """The named parts of a mapping, a dataclass or a named tuple; None for anything else."""
    if isinstance(result, Mapping):
        return dict(result)
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return dict(zip(result._fields, result, strict=True))
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return {each.name: getattr(result, each.name) for each in dataclasses.fields(result)}
    return None


def _steps(place: Place) -> tuple[int | str, ...]:
    return place if isinstance(place, tuple) else (place,)


def _keys(result: Any, place: Place | None) -> tuple[int | str, ...]:
    """A place with positions from the beginning, where it counted from the end."""
    assert place is not None
    keys: list[int | str] = []
    for key in _steps(place):
        if isinstance(key, int) and isinstance(result, (tuple, list)) and key < 0:
            key += len(result)
        keys.append(key)
        result = _part(result, key)
    return tuple(keys)


def _order(keys: tuple[int | str, ...]) -> list[tuple[int, str]]:
    return [(key, "") if isinstance(key, int) else (0, key) for key in keys]


def taken(result: Any, place: Place, name: str) -> Any:
    """What stands at a place among the results, or an error that shows what there is."""
    try:
        for key in _steps(place):
            result = _part(result, key)
    except (KeyError, IndexError, TypeError):
        raise UsageError(
            f"returned={place!r} is not among the results: there {_there(result)}",
            where=f"memory {name!r}",
            hint="give the position, counted from 0, or the key of its next value",
        ) from None
    return result


def _there(result: Any) -> str:
    fields = as_fields(result)
    if fields is not None:
        return f"are the keys {', '.join(map(repr, fields))}"
    if isinstance(result, (tuple, list)):
        return f"are {len(result)} values"
    return f"is a {type(result).__name__}"


def _part(result: Any, key: int | str) -> Any:
    if isinstance(key, int) and isinstance(result, (tuple, list)):
        return result[key]
    fields = as_fields(result)
    if fields is None:
        raise TypeError(key)
    return fields[key]


def without(result: Any, keys: tuple[int | str, ...]) -> Any:
    """The results without what stands at a place; containers that are then empty go too."""
    key, *deeper = keys
    if deeper:
        below = without(_part(result, key), tuple(deeper))
        if below is not None:
            return _replaced(result, key, below)
    fields = as_fields(result)
    if fields is not None and not (isinstance(key, int) and isinstance(result, tuple)):
        rest = {name: value for name, value in fields.items() if name != key}
        return rest or None
    if fields is not None:
        return {name: value for i, (name, value) in enumerate(fields.items()) if i != key} or None
    parts = [value for index, value in enumerate(result) if index != key]
    return parts[0] if len(parts) == 1 else tuple(parts) or None


def _replaced(result: Any, key: int | str, value: Any) -> Any:
    fields = as_fields(result)
    if fields is not None:
        name = list(fields)[key] if isinstance(key, int) and isinstance(result, tuple) else key
        return fields | {name: value}
    return tuple(value if index == key else each for index, each in enumerate(result))
