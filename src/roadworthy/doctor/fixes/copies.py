"""Two copies of a module: one to repair and capture, one to compare with."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FunctionType
from typing import Any

import torch

from roadworthy.doctor.fixes.choice import Choice
from roadworthy.errors import ExportError, Finding
from roadworthy.lines import is_authors, place_of
from roadworthy.source import Source

Rewritten = dict[FunctionType, dict[int, Choice]]


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
