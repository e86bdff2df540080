"""Code that runs when the policy is called, and does not when it is captured; or the other way."""

from __future__ import annotations

import dis
import linecache
from pathlib import Path
from types import CodeType

from roadworthy.errors import ExportError
from roadworthy.inspection.trail import Trail

_INSTALLED = {"site-packages", "dist-packages"}


def own_code(trails: list[Trail]) -> set[CodeType]:
    """The code that ran and that is no installed package's: what the user can change."""
    codes = {code for trail in trails for code in trail.steps}
    return {code for code in codes if not _INSTALLED & set(Path(code.co_filename).parts)}


def refuse_hiding(eager: list[Trail], captured: Trail) -> None:
    """An error where the capture took another way through the author's code than every call.

    `eager` are calls before and after whatever is built once was built: between them they take
    every way that a call may take, and the capture takes one of these.
    """
    ever, always = Trail(), Trail()
    for code in own_code(eager):
        each = [trail.steps.get(code, set()) for trail in eager]
        ever.steps[code] = set().union(*each)
        always.steps[code] = set.intersection(*each)
    beyond = captured.first_beyond(ever)
    lacking = always.first_beyond(captured)
    place = beyond or lacking
    if place is None:
        return
    when = "only while it is captured" if beyond else "when it is called, not while it is captured"
    raise ExportError(
        f"this code runs {when}: the graph would be another policy",
        code="RW126",
        where=_line(*place),
        hint="let the code do the same in both: no torch.compiler.is_exporting(), no question for "
        "the type of a tensor, no try around a branch on its values",
    )


def _line(code: CodeType, offset: int) -> str:
    lines = [line for start, line in dis.findlinestarts(code) if start <= offset and line]
    number = lines[-1] if lines else code.co_firstlineno
    text = linecache.getline(code.co_filename, number).strip()
    return f"{Path(code.co_filename).name}:{number} ({text})"
