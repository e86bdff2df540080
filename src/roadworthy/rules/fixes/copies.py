"""Two copies of a module: one to repair and capture, one to compare with."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

import torch

from roadworthy.capture.source import Source
from roadworthy.errors import ExportError, Finding
from roadworthy.errors.lines import is_authors, place_of
from roadworthy.rules.fixes.choice import Choice
from roadworthy.rules.fixes.rewrite import rewritten

# Of each function, the branches that are choices now.
Rewritten = dict[FunctionType, dict[int, Choice]]
# Of each module and function, what the conditions at some lines say: two modules may differ.
Settled = dict[tuple[torch.nn.Module, FunctionType], dict[int, bool]]


@dataclass
class ModuleCopies:
    """A source under repair.

    `repaired` is captured. `original` is what the artifact is compared with: it computes as the
    caller's module does, and only takes the same ports.
    """

    repaired: Source
    original: Source
    notes: list[Finding] = field(default_factory=list)
    rewritten: Rewritten = field(default_factory=dict)
    settled: Settled = field(default_factory=dict)
    left_alone: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def of(source: Source) -> ModuleCopies:
        try:
            repaired, original = (
                replace(source, module=copy.deepcopy(source.module)) for _ in range(2)
            )
        except Exception as error:  # modules can hold what cannot be copied
            raise ExportError(
                f"the module cannot be copied, so it cannot be fixed: {error}",
                code="RW194",
                where=type(source.module).__name__,
                hint="export without fix=True, and change the lines that it names",
            ) from error
        return ModuleCopies(repaired, original)

    def rewrite(self, owner: torch.nn.Module, name: str, function: FunctionType) -> None:
        """Gives a module its function with all that is known by now; or raises `LeftAlone`."""
        choices = self.rewritten.get(function, {})
        made = rewritten(function, choices, self.settled.get((owner, function), {}))
        vars(owner)[name] = MethodType(made, owner)

    def note(self, where: str, what: str) -> None:
        self.notes.append(
            Finding(
                code="RW195",
                severity="note",
                where=where,
                what=what,
                hint="in the exported program only: your module and your file are unchanged",
            )
        )


def functions_at(
    module: torch.nn.Module, where: str
) -> Iterator[tuple[torch.nn.Module, str, FunctionType]]:
    """Each module that has a function of its author's at `where`, and that function."""
    place = place_of(where)
    if place is None:
        return
    for owner in module.modules():
        for name, function in _functions(type(owner)).items():
            code = function.__code__
            lines = [line for _, _, line in code.co_lines() if line is not None]
            file, line = place
            if Path(code.co_filename).name == file and min(lines) <= line <= max(lines):
                yield owner, name, function


def _functions(kind: type) -> dict[str, FunctionType]:
    found: dict[str, Any] = {}
    for each in reversed(kind.__mro__):
        found |= {n: f for n, f in vars(each).items() if isinstance(f, FunctionType)}
    return {n: f for n, f in found.items() if is_authors(Path(f.__code__.co_filename))}
