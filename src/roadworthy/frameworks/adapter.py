"""An adapter: what is accepted, and the function that describes it; those of other packages too."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from roadworthy.errors import need

if TYPE_CHECKING:
    from roadworthy.capture.source import Source
    from roadworthy.environment.source import EnvironmentSource

    Described = Source | EnvironmentSource
    Describe = Callable[..., Described]

# Each of these means the same for every adapter that takes it.
COMMON = (
    "example", "memory", "normalizer", "outputs", "action", "about", "dynamic", "batch", "period_s",
    "ignore",
)  # fmt: skip
# What a policy that draws its actions may do instead: --exploration, where it is asked for.
EXPLORATIONS = ("deterministic", "mode", "mean", "random")
T = TypeVar("T")
ENTRY_POINTS = "roadworthy.adapters"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """One row: what is accepted, and the function that describes it as a source.

    classes      "package.Class": things of that class, or of one that inherits from it
    recognises   whether the file or folder at a path is one of the framework's, by its content
    describe     the function, or "module:function", which is imported when it is needed
    extra        the optional dependency of Roadworthy that brings the framework, if there is one
    env_classes  "package.Class": environments that say what a policy of the framework sees
    noun         what messages call such a thing; left out, "a NAME policy"
    """

    name: str
    describe: Describe | str
    classes: tuple[str, ...] = ()
    recognises: Callable[[Path], bool] | None = None
    extra: str = ""
    env_classes: tuple[str, ...] = ()
    noun: str = ""

    def accepts(self, kind: type) -> bool:
        """Whether instances of exactly this class are the framework's, by its name alone."""
        return _name(kind) in self.classes

    def takes_env(self, env: object) -> bool:
        """Whether `env` is an environment of the framework, and not one to play in."""
        return any(_name(kind) in self.env_classes for kind in type(env).__mro__)

    def load(self) -> Describe:
        """The function that describes; says what to install where the framework is missing."""
        if not isinstance(self.describe, str):
            return self.describe
        module, _, name = self.describe.partition(":")
        if self.extra:
            need(self.extra, extra=self.extra)
            return cast("Describe", getattr(need(module, extra=self.extra), name))
        return cast("Describe", getattr(importlib.import_module(module), name))

    def keywords(self) -> tuple[str, ...]:
        """Every keyword that the adapter takes."""
        parameters = inspect.signature(self.load()).parameters.values()
        return tuple(each.name for each in parameters if each.kind is each.KEYWORD_ONLY)


def _name(kind: type) -> str:
    return f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}"


@functools.cache
def plug_ins() -> tuple[Adapter, ...]:
    """The rows that installed packages add; one that does not load is warned about."""
    found = []
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        try:
            adapter = entry.load()
        except Exception as error:  # whatever a stranger's package raises
            warnings.warn(f"the adapter {entry.name!r} does not load: {error}", stacklevel=2)
            continue
        if isinstance(adapter, Adapter):
            found.append(adapter)
        else:
            kind = type(adapter).__name__
            warnings.warn(f"{entry.value} is a {kind}, not a roadworthy.Adapter", stacklevel=2)
    return tuple(found)


def named_after(thing: object, kind: type[T]) -> type[T]:
    """The class `kind` under the name of the class of `thing`."""
    return type(type(thing).__name__, (kind,), {"__module__": kind.__module__})
