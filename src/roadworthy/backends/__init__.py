"""Backends: a Program goes in, files come out. Found by the name that users type."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, cast

from roadworthy import targets
from roadworthy.program import Program


class Backend(Protocol):
    """One method: write the program into `folder` and say which file it became.

    Making one fails where this machine lacks what it needs, before any work is done.
    """

    def lower(self, program: Program, folder: Path) -> Sequence[Path]: ...


def names() -> tuple[str, ...]:
    """Every target that can be written, in the order of the table."""
    return targets.names()


def get(name: str) -> type[Backend]:
    """The backend's class."""
    return cast("type[Backend]", targets.imported(targets.get(name).backend))
