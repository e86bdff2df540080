"""Adapters: what a framework's things are, and how each becomes a source.

An adapter is a row: what it accepts (classes, or paths by their content) and one function,
`describe(thing, *, example=None, …) -> Source`. What that function takes beyond the common keywords
are the keywords that `rw.export` accepts for the framework. Looking for the right row imports no
framework. Packages of other people add rows through the entry-point group `roadworthy.adapters`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import inspect
import warnings
from collections.abc import Callable, Container
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from roadworthy.checkpoints.beginning import looks_like_a_checkpoint
from roadworthy.errors import need

if TYPE_CHECKING:
    from roadworthy.environment.source import EnvironmentSource
    from roadworthy.source import Source

    Described = Source | EnvironmentSource
    Describe = Callable[..., Described]

# Each of these means the same for every adapter that takes it.
COMMON = (
    "example", "memory", "normalizer", "outputs", "action", "about", "dynamic", "batch", "period_s",
    "ignore",
)  # fmt: skip
# What a policy that draws its actions may do instead: --exploration, where it is asked for.
EXPLORATIONS = ("deterministic", "mode", "mean", "random")
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


BUILT_IN = (
    Adapter(
        name="torchrl",
        classes=("tensordict.TensorDictModuleBase",),
        env_classes=("torchrl.EnvBase",),
        describe="roadworthy.adapters.torchrl:describe",
        extra="torchrl",
    ),
    Adapter(
        name="sb3",
        classes=("stable_baselines3.BaseAlgorithm",),
        describe="roadworthy.adapters.sb3:describe",
        noun="a Stable-Baselines3 model",
    ),
    Adapter(
        name="rsl_rl",
        classes=("rsl_rl.MLPModel", "rsl_rl.OnPolicyRunner"),
        describe="roadworthy.adapters.rsl_rl:describe",
    ),
    Adapter(
        name="skrl",
        classes=("skrl.Model", "skrl.Agent"),
        describe="roadworthy.adapters.skrl:describe",
    ),
    Adapter(
        name="rl_games",
        classes=("rl_games.BasePlayer",),
        describe="roadworthy.adapters.rl_games:describe",
    ),
    Adapter(
        name="mjlab",
        classes=(
            "mjlab.ManagerBasedRlEnv",
            "mjlab.RslRlVecEnvWrapper",
            "mjlab.MjlabOnPolicyRunner",
        ),
        describe="roadworthy.adapters.mjlab:describe",
        extra="mjlab",
        noun="an mjlab environment",
    ),
    Adapter(
        name="isaaclab",
        classes=("isaaclab.ManagerBasedRLEnv", "isaaclab_rl.RslRlVecEnvWrapper"),
        describe="roadworthy.adapters.isaaclab:describe",
        noun="an IsaacLab environment",
    ),
    Adapter(
        name="environment",
        classes=("roadworthy.ExportableEnvironment",),
        describe="roadworthy.environment.source:describe",
        noun="an environment",
    ),
    Adapter(
        name="checkpoint",
        recognises=looks_like_a_checkpoint,
        describe="roadworthy.adapters.checkpoint:describe",
        noun="a checkpoint",
    ),
)


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


def adapter_for(thing: object, said: Container[str] = ()) -> Adapter | None:
    """The adapter that accepts `thing`, the one for its nearest class; None where there is none.

    `said` are the keywords beside it: who says which method acts describes the module by hand.
    """
    if "method" in said and not isinstance(thing, Path):
        return None
    rows = (*plug_ins(), *BUILT_IN)
    if isinstance(thing, Path):
        return next((row for row in rows if row.recognises and row.recognises(thing)), None)
    for kind in type(thing).__mro__:
        for row in rows:
            if row.accepts(kind):
                return row
    return None
