"""Steps that carry the name of what they step, which findings and the manifest show."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def named_after(thing: object, kind: type[T]) -> type[T]:
    """The class `kind` under the name of the class of `thing`."""
    return type(type(thing).__name__, (kind,), {"__module__": kind.__module__})
