"""A failing export: the code as users write it, what is said about it, and the code as advised."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

import roadworthy as rw

OBS = {"obs": torch.linspace(-1, 1, 16).reshape(2, 8)}


@dataclass(frozen=True, kw_only=True)
class Case:
    """`before` is refused at `line` with `code`; `after` is what the finding tells to write."""

    before: type[nn.Module]
    after: type[nn.Module]
    line: str
    code: str
    what: str
    hint: str
    described: dict[str, Any] = field(default_factory=dict)
    described_after: dict[str, Any] | None = None
    make_after: Callable[[], nn.Module] | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def source_before(self) -> rw.Source:
        return _source(self.before, self.described)

    def source_after(self) -> rw.Source:
        said = self.described if self.described_after is None else self.described_after
        return _source(self.make_after or self.after, said)

    @property
    def where(self) -> str:
        """`operators.py:12 (code)`: where `line` stands in the source of `before`."""
        for kind in self.before.__mro__:
            if not issubclass(kind, nn.Module) or kind is nn.Module:
                continue
            lines, first = inspect.getsourcelines(kind)
            found = [index for index, text in enumerate(lines) if text.strip() == self.line]
            if found:
                file = Path(inspect.getsourcefile(kind) or "").name
                return f"{file}:{first + found[0]} ({self.line})"
        raise LookupError(self.line)


def _source(make: Callable[[], nn.Module], described: dict[str, Any]) -> rw.Source:
    torch.manual_seed(0)
    return rw.Source(make(), **({"example": OBS} | described))
