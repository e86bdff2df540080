"""Layouts: how named ports nest in the arguments and results of a user's function.

A layout is a port name, a dict of layouts or a list of layouts; it is JSON as it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Layout = str | dict[str, "Layout"] | list["Layout"]


def layout_of(name: str, value: Any) -> Layout:
    """The layout of a nested value; leaves are called `name`, `name.key`, `name.0`."""
    if isinstance(value, Mapping):
        return {key: layout_of(f"{name}.{key}", each) for key, each in value.items()}
    if isinstance(value, (tuple, list)):
        return [layout_of(f"{name}.{index}", each) for index, each in enumerate(value)]
    return name


def ports_of(layout: Layout) -> list[str]:
    """The port names in a layout, in order."""
    if isinstance(layout, str):
        return [layout]
    parts = layout.values() if isinstance(layout, dict) else layout
    return [name for part in parts for name in ports_of(part)]


def pack(layout: Layout, values: Mapping[str, Any]) -> Any:
    """The nested value whose leaves are `values`."""
    if isinstance(layout, str):
        return values[layout]
    if isinstance(layout, dict):
        return {key: pack(part, values) for key, part in layout.items()}
    return tuple(pack(part, values) for part in layout)


def unpack(layout: Layout, value: Any) -> dict[str, Any]:
    """Port name → leaf, for a value that nests as `layout` says."""
    if isinstance(layout, str):
        return {layout: value}
    parts = layout.items() if isinstance(layout, dict) else enumerate(layout)
    result: dict[str, Any] = {}
    for key, part in parts:
        result |= unpack(part, value[key])
    return result
