"""How named inputs reach a module's `forward`: by name, as the one argument, or as one dict."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from roadworthy.capture.snapshot import preserved
from roadworthy.errors import UsageError
from roadworthy.source import Source, forward_parameters, takes_any_name
from roadworthy.spec.layout import pack, ports_of

Style = Literal["by_name", "one_argument", "one_mapping"]


@dataclass(frozen=True, slots=True)
class CallStyle:
    """The names that `forward` receives, and in which style."""

    names: tuple[str, ...]
    style: Style

    def call(
        self, module: torch.nn.Module, values: Mapping[str, Any], memory: Mapping[str, Any]
    ) -> Any:
        if self.style == "by_name":
            return module(**{name: values[name] for name in self.names}, **memory)
        if self.style == "one_argument":
            return module(values[self.names[0]], **memory)
        return module({name: values[name] for name in self.names}, **memory)


def call_style(source: Source, memory_arguments: Sequence[str]) -> CallStyle:
    """The way to call `source.module` with its example, or a question to the user."""
    parameters = forward_parameters(source.module)
    names = [n for n in source.example if n not in source.masks or n in parameters]
    if takes_any_name(source.module):
        return CallStyle(tuple(names), "by_name")
    unknown = [name for name in memory_arguments if name not in parameters]
    if unknown:
        raise UsageError(
            f"memory {unknown[0]!r} is not an argument of forward({', '.join(parameters)})",
            where=type(source.module).__name__,
            hint="name an argument of forward, or the attribute that holds the state: "
            f"memory={{{unknown[0]!r}: 'hidden'}}",
        )
    if parameters and all(name in parameters for name in names):
        return CallStyle(tuple(names), "by_name")
    free = [each for each in parameters if each not in memory_arguments]
    required = _required(source.module, free)
    if len(names) == 1 and len(required) <= 1:
        return CallStyle(tuple(names), _of_one(source, names[0], memory_arguments))
    if len(required) == 1:
        return CallStyle(tuple(names), "one_mapping")
    raise UsageError(
        f"the example has {', '.join(map(repr, names))}, "
        f"but forward takes ({', '.join(parameters)})",
        where=type(source.module).__name__,
        hint=f"use the arguments as keys: example={{{parameters[0]!r}: …}}"
        if parameters
        else "give forward one argument for each input",
    )


# Module → how it was found to take its one value: an export asks several times.
_FOUND: weakref.WeakKeyDictionary[torch.nn.Module, dict[str, Style]] = weakref.WeakKeyDictionary()


def _of_one(source: Source, name: str, memory_arguments: Sequence[str]) -> Style:
    """Whether the one value goes in as it is, or as a dict with one key: as it works."""
    found = _FOUND.setdefault(source.module, {})
    asked = f"{name} {memory_arguments} {source.inputs[name]}"
    if asked not in found:
        found[asked] = _tried(source, name, memory_arguments)
    return found[asked]


def _tried(source: Source, name: str, memory_arguments: Sequence[str]) -> Style:
    memory = {each: source.memory[each] for each in memory_arguments}
    layout = source.inputs[name]
    value = pack(layout, {port: source.tensors[port] for port in ports_of(layout)})
    for style, argument in (("one_argument", value), ("one_mapping", {name: value})):
        try:
            with preserved(source.module), torch.no_grad():
                source.module(argument, **memory)
        except Exception:  # a module refuses what it does not take in any way it likes
            continue
        return style  # type: ignore[return-value]  # mypy widens the literals of the loop
    return "one_argument"


def _required(module: torch.nn.Module, names: Sequence[str]) -> list[str]:
    parameters = inspect.signature(module.forward).parameters
    if not parameters:
        return []
    return [n for n in names if parameters[n].default is inspect.Parameter.empty]
