"""How named inputs reach what is called: by name, as the one argument, or as one dict."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from roadworthy.capture.source import Source
from roadworthy.errors import UsageError
from roadworthy.inspection.snapshot import preserved
from roadworthy.spec.layout import pack, ports_of

Style = Literal["by_name", "one_argument", "one_mapping"]


@dataclass(frozen=True, slots=True)
class CallStyle:
    """The names that `forward` receives, and in which style."""

    names: tuple[str, ...]
    style: Style

    def call(
        self, function: Callable[..., Any], values: Mapping[str, Any], named: Mapping[str, Any]
    ) -> Any:
        if self.style == "by_name":
            return function(**{name: values[name] for name in self.names}, **named)
        if self.style == "one_argument":
            return function(values[self.names[0]], **named)
        return function({name: values[name] for name in self.names}, **named)


def call_style(source: Source, memory_arguments: Sequence[str]) -> CallStyle:
    """The way to call `source.module` with its example, or a question to the user."""
    parameters = source.parameters
    names = [n for n in source.example if n not in source.masks or n in parameters]
    if source.takes_any_name:
        return CallStyle(tuple(names), "by_name")
    unknown = [name for name in memory_arguments if name not in parameters]
    if unknown:
        raise UsageError(
            f"memory {unknown[0]!r} is not an argument of {source.called}({', '.join(parameters)})",
            where=type(source.module).__name__,
            hint=f"name an argument of {source.called}, or the attribute that holds the state: "
            f"memory={{{unknown[0]!r}: 'hidden'}}",
        )
    if parameters and all(name in parameters for name in names):
        return CallStyle(tuple(names), "by_name")
    free = [each for each in parameters if each not in memory_arguments]
    required = [n for n in free if source.arguments[n].default is inspect.Parameter.empty]
    if len(names) == 1 and len(required) <= 1:
        return CallStyle(tuple(names), _of_one(source, names[0], memory_arguments))
    if len(required) == 1:
        return CallStyle(tuple(names), "one_mapping")
    raise UsageError(
        f"the example has {', '.join(map(repr, names))}, "
        f"but {source.called} takes ({', '.join(parameters)})",
        where=type(source.module).__name__,
        hint=f"use the arguments as keys: example={{{parameters[0]!r}: …}}"
        if parameters
        else f"give {source.called} one argument for each input",
    )


# Module → how it was found to take its one value: an export asks several times.
_FOUND: weakref.WeakKeyDictionary[torch.nn.Module, dict[str, Style]] = weakref.WeakKeyDictionary()


def _of_one(source: Source, name: str, memory_arguments: Sequence[str]) -> Style:
    """Whether the one value goes in as it is, or as a dict with one key: as it works."""
    if not isinstance(source.method, str):
        return _tried(source, name)  # a function may hold the module, and would keep it alive
    found = _FOUND.setdefault(source.module, {})
    asked = f"{source.method} {source.constants} {name} {memory_arguments} {source.inputs[name]}"
    if asked not in found:
        found[asked] = _tried(source, name)
    return found[asked]


def _tried(source: Source, name: str) -> Style:
    layout = source.inputs[name]
    value = pack(layout, {port: source.tensors[port] for port in ports_of(layout)})
    for style, argument in (("one_argument", value), ("one_mapping", {name: value})):
        try:
            with preserved(source.module), torch.no_grad():
                source.function(argument, **source.named)
        except Exception:  # a module refuses what it does not take in any way it likes
            continue
        return style  # type: ignore[return-value]  # mypy widens the literals of the loop
    return "one_argument"
