"""Adapters: one module per framework, named as it is imported.

An adapter is one function, `describe(thing, *, example, memory, normalizer, outputs, action,
…) -> Source`; what it takes beyond these are the keywords that `rw.export` accepts for the
framework. It is found by a class that the thing inherits from, by name: looking imports nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from roadworthy.errors import Finding, UsageError, did_you_mean, need

if TYPE_CHECKING:
    from roadworthy.capture.source import Source

    Describe = Callable[..., Source]

# (the package, a class in it) → the adapter for everything that inherits from that class.
_ADAPTERS = {("tensordict", "TensorDictModuleBase"): "torchrl"}


def name_of(thing: Any) -> str | None:
    """The adapter that understands `thing`; None for a plain module."""
    for kind in type(thing).__mro__:
        found = _ADAPTERS.get((kind.__module__.partition(".")[0], kind.__qualname__))
        if found is not None:
            return found
    return None


def describer(thing: Any) -> Describe | None:
    """The function that describes `thing` as a source; None for a plain module."""
    name = name_of(thing)
    if name is None:
        return None
    need(name, extra=name)
    return cast("Describe", need(f"roadworthy.adapters.{name}", extra=name).describe)


def refuse_unknown(
    thing: Any, describe: Describe, keywords: Iterable[str], common: Iterable[str]
) -> None:
    """An error for every keyword that the adapter does not take."""
    parameters = inspect.signature(describe).parameters.values()
    known = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
    own = [name for name in known if name not in set(common)]
    kind = name_of(thing)
    whom = f"a {kind} policy" if kind else f"a plain {type(thing).__name__}"
    findings = [
        Finding(
            code="RW001",
            where=f"export(…, {keyword}=…)",
            what=f"{whom} takes no {keyword!r}",
            hint=_advice(keyword, known, own),
        )
        for keyword in keywords
        if keyword not in known
    ]
    if findings:
        raise UsageError(findings=findings)


def _advice(keyword: str, known: list[str], own: list[str]) -> str:
    for names in (own, known):
        near = did_you_mean(keyword, names)
        if near.startswith("did"):
            return near
    if not own:
        return near
    return f"beyond the common keywords it takes {', '.join(own)}"
