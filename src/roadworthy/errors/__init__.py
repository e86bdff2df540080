"""What can go wrong, drawn once.

RoadworthyError              every error a user is meant to see; carries one or more findings
├── UsageError               the call itself: a wrong argument, an unknown name
│   └── PortMismatch         a value that does not fit the port it was given to
├── MissingExtra             an optional dependency is not installed
├── ExportError              the source cannot become an artifact that behaves like it
│   └── BatchSpecialised     the graph works for one batch size only
├── BundleError              a bundle cannot be read or written
│   └── BundleCorrupt        a file is not the one that was certified
├── CertificateFailed        the artifact does not behave like the original
└── InternalError            a mistake of Roadworthy's own; the traceback is its cause

RoadworthyWarning            what an export that succeeded has to say, through Python's `warnings`
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Literal

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong: what, where, and what to do about it.

    code      RW and three digits; `roadworthy explain CODE` prints its page
    where     the port, the attribute, or the file and line of the user's code
    hint      the next step, often the very code to write
    severity  "error", "warning" or "note"
    """

    code: str
    what: str
    where: str = ""
    hint: str = ""
    severity: Severity = "error"

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f"\n  → {self.hint}" if self.hint else ""
        return f"[{self.code}] {place}{self.what}{advice}"


class RoadworthyError(Exception):
    """The root of the tree; `findings` lists every problem that was found, not only the first."""

    code = "RW000"

    def __init__(
        self,
        what: str = "",
        *,
        where: str = "",
        hint: str = "",
        code: str = "",
        findings: Sequence[Finding] = (),
    ) -> None:
        own = Finding(code=code or self.code, what=what, where=where, hint=hint)
        self.findings: tuple[Finding, ...] = tuple(findings) or (own,)
        super().__init__("\n".join(str(finding) for finding in self.findings))

    def replace_findings(self, findings: Sequence[Finding]) -> None:
        """Changes what the error says: the findings of a closer look take the place of its own."""
        self.findings = tuple(findings)
        self.args = ("\n".join(str(finding) for finding in self.findings),)


class UsageError(RoadworthyError):
    """The call itself is wrong: an argument, a name."""

    code = "RW001"


class PortMismatch(UsageError):
    """A value does not fit the port that it was given to."""

    code = "RW010"


class MissingExtra(RoadworthyError):
    """An optional dependency is not installed; the hint is the `pip install`."""

    code = "RW002"


class ExportError(RoadworthyError):
    """The source cannot become an artifact that behaves like it."""

    code = "RW100"


class BatchSpecialised(ExportError):
    """The graph works for one batch size only."""

    code = "RW101"


class BundleError(RoadworthyError):
    """A bundle cannot be read or written."""

    code = "RW200"


class BundleCorrupt(BundleError):
    """A file is not the one that was certified."""

    code = "RW201"


class CertificateFailed(RoadworthyError):
    """The artifact does not behave like the original."""

    code = "RW300"


class InternalError(RoadworthyError):
    """A mistake of Roadworthy's own, to be reported; what was raised is its `__cause__`."""

    code = "RW900"


class RoadworthyWarning(UserWarning):
    """A question about a policy that was exported: something may be missing in it."""


def need(module: str, *, extra: str) -> ModuleType:
    """The imported `module`, or an error that names the `pip install` that brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or module
        if missing.partition(".")[0] == "roadworthy":
            raise
        raise MissingExtra(
            f"{missing} is not installed", hint=f"pip install 'roadworthy[{extra}]'"
        ) from error


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence that names the closest known name, or lists the known ones."""
    import difflib  # only where something went wrong: a robot starts without it

    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return "known: " + (", ".join(repr(each) for each in names) or "none")
