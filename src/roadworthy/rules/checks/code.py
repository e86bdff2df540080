"""What the code of `forward` does that a graph cannot hold, line by line."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import torch

from roadworthy.errors import Finding, Severity
from roadworthy.rules.patient import Patient
from roadworthy.rules.reached import reached_lines
from roadworthy.rules.reading import CodePattern, Kind, code_patterns

# Kind → code, severity, what, hint.
_SAID: dict[Kind, tuple[str, Severity, str, str]] = {
    "branch": (
        "RW103",
        "error",
        "the code branches on the value of a tensor; a graph would freeze one side",
        "compute both sides and choose: torch.where(condition, a, b)",
    ),
    "number": (
        "RW103",
        "error",
        "the value of a tensor is read as a Python number; a graph would freeze it",
        "stay with tensors: drop .item(), float(), int() and bool()",
    ),
    "numpy": (
        "RW103",
        "error",
        "the code leaves PyTorch for NumPy; a graph would freeze what comes back",
        "write the line with torch operations, without NumPy",
    ),
    "random": (
        "RW111",
        "warning",
        "random numbers are drawn: the same inputs give different outputs",
        "return the mean or the mode of the distribution instead of a sample",
    ),
    "shape": (
        "RW173",
        "warning",
        "how many elements come out depends on the values of a tensor",
        "keep the shape: torch.where(mask, x, 0.0), or multiply by the mask",
    ),
    "operator": (
        "RW174",
        "warning",
        "{name} is an operator of an extension; no other runtime has it",
        "write it with torch operations in forward, or pass rw.export(…, decompositions={…: f})",
    ),
    "function": (
        "RW175",
        "note",
        "{name} has a backward of its own; its forward is exported, the backward is not needed",
        "",
    ),
}


def forward(patient: Patient) -> Iterator[Finding]:
    """All that the code of the module and its submodules shows, as far as it runs."""
    reached = None if patient.source is None else reached_lines(patient.source)
    given = set() if patient.source is None else {*patient.source.example, *patient.source.memory}
    for path, module in patient.written_by_users():
        # Inputs are known by name for the outermost forward only.
        begun = ("forward",) if path else patient.begun
        for sight in code_patterns(module, set() if path else given, begun, reached):
            if sight.kind == "state":
                yield from _state(patient, path, sight)
            else:
                code, severity, what, hint = _SAID[sight.kind]
                yield Finding(
                    code=code,
                    where=sight.where,
                    what=what.format(name=sight.name),
                    hint=hint,
                    severity=severity,
                )


def _state(patient: Patient, path: str, sight: CodePattern) -> Iterator[Finding]:
    full = f"{path}.{sight.name}" if path else sight.name
    if full in patient.remembered:
        return
    held = getattr(patient.module.get_submodule(path), sight.name, None)
    if not isinstance(held, (type(None), torch.Tensor, int, float, list, tuple, dict, deque)):
        return  # a distribution, a cache: what is read of it shows when it runs
    name = sight.name.strip("_")
    first = f"{name!r}: rw.Attribute({full!r}, initial='first input')"
    unmade = held is None or isinstance(held, bool)
    yield Finding(
        code="RW112",
        where=f"{patient.at(full)} at {sight.where}",
        what="forward writes it, and a later call may read it; a graph would freeze it",
        hint=f"declare what persists: memory={{{name!r}: {full!r}}}"
        + (f", or memory={{{first}}} where the first call makes it" if unmade else ""),
        severity="warning",
    )
