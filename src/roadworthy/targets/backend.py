"""Backends: a Program goes in, files come out. Found by the name that users type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

from roadworthy.capture.program import Program
from roadworthy.spec import targets
from roadworthy.spec.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an export may choose about how its targets are written; each takes what concerns it.

    opset, ir_version  of the ONNX file
    translations       operator → a function in onnxscript that writes it as ONNX
    memory_defaults    write the values that memory begins with into the ONNX file, where they are
                       not zeros: runtimes that know nothing of signatures begin with them
    whole_sigmoids     write sigmoids with all of their tail, which onnxruntime's own lacks
    """

    opset: int = 20
    ir_version: int = 10
    translations: Mapping[Any, Callable[..., Any]] = field(default_factory=dict)
    memory_defaults: bool = False
    whole_sigmoids: bool = False


class Backend(Protocol):
    """Writes programs as files of one target."""

    @classmethod
    def configured(cls, settings: Settings) -> Backend:
        """The backend, set as an export says.

        It fails where this machine lacks what it needs, before any work is done.
        """
        ...

    def lower(self, program: Program, folder: Path) -> Sequence[Path]:
        """The files that the program became, in `folder` or below; engines open the first."""
        ...


@runtime_checkable
class WritesTrace(Protocol):
    """A backend one of whose files holds the recorded steps, which come after `lower`."""

    def add_trace(self, trace: Trace, folder: Path) -> None:
        """Writes that file, under a name that `lower` has returned."""
        ...


def names() -> tuple[str, ...]:
    """Every target that can be written, in the order of the table."""
    return targets.names()


def get(name: str) -> type[Backend]:
    """The backend's class."""
    return cast("type[Backend]", targets.imported(targets.get(name).backend))
