"""Places inside an environment: how a user would write them, and how to read and write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from roadworthy.inspection.walking import ATTRIBUTE, Keys, places

# Where a module keeps what is said as its attribute.
_MODULE_INTERNALS = ("_parameters", "_buffers", "_modules")


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where a value lies: `path` for people, `keys` to get there."""

    path: str
    keys: Keys

    def get(self, roots: Mapping[str, object]) -> Any:
        """The value that is there now."""
        value: Any = roots
        for kind, key in self.keys:
            value = getattr(value, key) if kind == ATTRIBUTE else value[key]
        return value

    def put(self, roots: Mapping[str, object], value: Any) -> None:
        """Write there; a tuple cannot be written to and raises TypeError."""
        owner = Place(self.path, self.keys[:-1]).get(roots)
        kind, key = self.keys[-1]
        if kind == ATTRIBUTE:
            object.__setattr__(owner, key, value)
        else:
            owner[key] = value

    def public(self, roots: Mapping[str, object]) -> str:
        """The path as Python, with `_name` as `name` wherever that gives the same object."""
        value: Any = roots
        names: list[str] = []
        of_module = True  # the roots themselves are said by their names alone
        for kind, key in self.keys:
            child = getattr(value, key) if kind == ATTRIBUTE else value[key]
            if kind != ATTRIBUTE:
                named = of_module and isinstance(key, str) and key.isidentifier()
                names.append(f".{key}" if named else f"[{_index(value, key)}]")
            elif key not in _MODULE_INTERNALS:
                names.append(f".{_public_name(value, key, child)}")
            of_module = kind == ATTRIBUTE and key in _MODULE_INTERNALS
            value = child
        return "".join(names).removeprefix(".")


def find(roots: Mapping[str, object]) -> tuple[dict[str, Place], dict[int, Place]]:
    """Every place below the roots: by path, and by the identity of what lies there."""
    by_path: dict[str, Place] = {}
    by_id: dict[int, Place] = {}
    for path, keys, value in places(roots):
        place = Place(path, keys)
        by_path.setdefault(path, place)
        by_id.setdefault(id(value), place)
    return by_path, by_id


def _index(owner: Any, key: Any) -> str:
    """What is written between brackets; the parts of a Sequential are numbered by text."""
    return key if isinstance(key, str) and key.isdigit() else repr(key)


def _public_name(owner: Any, key: str, child: Any) -> str:
    plain = key.lstrip("_")
    if plain != key and isinstance(getattr(type(owner), plain, None), property):
        try:
            if getattr(owner, plain) is child:
                return plain
        except Exception:  # a property may fail in any way; then the private name stands
            return key
    return key
