"""HTML that cannot be broken into: what is not made here is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Union

# What may stand inside an element.
Part = Union[str, int, float, None, Sequence["Part"]]  # noqa: UP007 (it names itself)
Attribute = str | int | float | None


class Html(str):
    """Text that is HTML already. Everything else is escaped on its way into a page."""

    __slots__ = ()


def tag(name: str, *inside: Part, **attributes: Attribute) -> Html:
    """An element. `class_` and `data_x` stand for `class` and `data-x`; None leaves one out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{written}>{joined(inside)}</{name}>")


def joined(parts: Iterable[Part]) -> Html:
    """The parts one behind the other, escaped where they are no HTML; None is nothing."""
    return Html("".join(_escaped(part) for part in parts))


def _escaped(part: Part) -> str:
    if isinstance(part, Html):
        return part
    if part is None:
        return ""
    if isinstance(part, (list, tuple)):
        return joined(part)
    return html.escape(str(part))
