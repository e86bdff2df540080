"""How named inputs reach what is called: by name, as the one argument, or as one dict."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from roadworthy.errors import UsageError
from roadworthy.source import Source

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
        return CallStyle(tuple(names), "one_argument")
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
