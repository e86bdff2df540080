"""The patient: what would be exported, what is known about it, and the code that it is made of."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from roadworthy.capture.analysis import ModuleAnalysis
from roadworthy.capture.program import Program
from roadworthy.capture.source import FORWARD, Attribute, Source
from roadworthy.errors import Finding
from roadworthy.errors.lines import is_authors_class

# Where training code keeps the network that acts.
_ACTS = (
    "policy", "actor", "actor_critic", "alg.policy", "alg.actor_critic", "agent", "model",
    "network", "net", "module",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Patient:
    """`subject` is what the caller passed, `module` the network in it, `source` how it is called.

    `source` is None where no example was given: then only what can be read is read. `owners`
    hold the module in an attribute. `analysis` is there while the policy can be run, `program` once
    it was captured.
    """

    subject: object
    module: torch.nn.Module
    source: Source | None = None
    owners: tuple[object, ...] = ()
    analysis: ModuleAnalysis | None = None
    program: Program | None = None

    @property
    def name(self) -> str:
        return type(self.module).__name__

    @property
    def remembered(self) -> frozenset[str]:
        """The paths of the attributes that are declared as memory."""
        if self.source is None:
            return frozenset()
        return frozenset(a.path for a in self.source.memory.values() if isinstance(a, Attribute))

    @property
    def begun(self) -> tuple[str, ...]:
        """The methods of the module that a call begins with."""
        if self.source is None:
            return (FORWARD,)
        if isinstance(self.source.method, str):
            return (self.source.method,)
        said = getattr(self.source.method, "__code__", None)
        named = tuple(each for each in (said.co_names if said else ()) if self._is_method(each))
        return named or (FORWARD,)

    def _is_method(self, name: str) -> bool:
        return inspect.isfunction(getattr(type(self.module), name, None))

    def written_by_users(self) -> Iterator[tuple[str, torch.nn.Module]]:
        """Path and module of every submodule whose class belongs to no library."""
        for path, module in self.module.named_modules():
            if is_authors_class(type(module)):
                yield path, module

    def at(self, path: str) -> str:
        """`Actor.encoder.hidden`: a path below the module as findings show it."""
        return f"{self.name}.{path}" if path else self.name


Check = Callable[[Patient], Iterator[Finding]]


def network(subject: Any) -> torch.nn.Module | None:
    """The module that acts: the subject itself, without wrappers, or one of its attributes."""
    if isinstance(subject, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
        return network(subject.module)
    if isinstance(subject, torch.nn.Module):
        inner = getattr(subject, "_orig_mod", subject)
        return inner if isinstance(inner, torch.nn.Module) else None
    for path in _ACTS:
        found = subject
        for name in path.split("."):
            found = getattr(found, name, None)
        if isinstance(found, torch.nn.Module):
            return network(found)
    return None
