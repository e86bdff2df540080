"""The repair: capture, see what is wrong, fix what is safe to fix, and capture again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from roadworthy.capture.capture import capture
from roadworthy.capture.program import Program
from roadworthy.capture.source import Source
from roadworthy.errors import ExportError, Finding, RoadworthyError
from roadworthy.rules.fixes.branches import choices, python_flags, settled_conditions
from roadworthy.rules.fixes.copies import ModuleCopies
from roadworthy.rules.fixes.dtypes import (
    float_ports,
    is_low,
    long_indices,
    one_precision,
    with_kept_state,
)
from roadworthy.verification.originals.module import ModuleOriginal
from roadworthy.verification.originals.original import TRACE_STEPS

Fix = Callable[[ModuleCopies, Finding], bool]

FIXES: tuple[Fix, ...] = (
    one_precision,
    float_ports,
    long_indices,
    python_flags,
    settled_conditions,
    choices,
)
# What is put right without being asked: a low precision that no port has.
OF_PRECISION: tuple[Fix, ...] = (one_precision, float_ports)
FIXABLE = {"RW022", "RW103", "RW116"}
MOST_FIXES = 16


def captured_in_its_ports(source: Source, *, seed: int) -> tuple[Program, Source]:
    """The program of a source, and the source to compare it with.

    A module in bfloat16, or in float16 beside a float32 example, is computed in the precision of
    its ports, and compared with itself as it is; the cast is listed like a repair.
    """
    if source.rewritten is None and is_low(source):
        return captured_with_fixes(source, seed=seed, fixes=OF_PRECISION)
    return capture(source), source


def captured_with_fixes(
    source: Source, *, seed: int, fixes: tuple[Fix, ...] = FIXES
) -> tuple[Program, Source]:
    """The program of the repaired module, and the source of the original to compare it with.

    Where nothing can be fixed, the first refusal is raised as it would have been without.
    """
    try:
        return capture(source), source
    except RoadworthyError as error:  # a dtype that no port has is a mistake of the call
        refusal = error
    copies = ModuleCopies.of(source)
    latest: RoadworthyError = refusal
    for _ in range(MOST_FIXES):
        if not _fixed(copies, latest, fixes):
            break
        try:
            program = capture(copies.repaired)
        except RoadworthyError as error:
            latest = error
            continue
        _refuse_untried(copies, program, seed)
        return replace(program, fixes=tuple(copies.notes)), copies.original
    raise with_kept_state(source, _with_reasons(copies, refusal, latest))


def _fixed(copies: ModuleCopies, error: RoadworthyError, fixes: tuple[Fix, ...]) -> bool:
    return any(fix(copies, finding) for finding in error.findings for fix in fixes)


def _with_reasons(
    copies: ModuleCopies, refusal: RoadworthyError, latest: RoadworthyError
) -> RoadworthyError:
    """The error that stays, which says why its branches were left alone."""
    stays, reasons = latest, dict(copies.left_alone)
    if not _leads_on(latest):
        stays = refusal
        failed = f"with both sides computed, {latest.findings[0].what}"
        tried = [choice.where for lines in copies.rewritten.values() for choice in lines.values()]
        reasons |= dict.fromkeys(tried, failed)
    stays.replace_findings(
        [
            replace(each, hint=f"{each.hint}; fix=True left it alone: {reasons[each.where]}")
            if each.where in reasons
            else each
            for each in stays.findings
        ]
    )
    return stays


def _leads_on(error: RoadworthyError) -> bool:
    """Whether it names a next line of the user's; other failures may come from the repair."""
    return {finding.code for finding in error.findings} <= FIXABLE


def _refuse_untried(copies: ModuleCopies, program: Program, seed: int) -> None:
    """An error for each rewritten branch that the recorded steps take on one side only."""
    chosen = [choice for lines in copies.rewritten.values() for choice in lines.values()]
    for choice in chosen:
        choice.sides.clear()
    if chosen:
        ModuleOriginal(copies.repaired).record(
            program.signature, seed=seed, sampling=program.sampling
        )
    findings = [
        Finding(
            code="RW194",
            where=choice.where,
            what=f"the condition was {' and '.join(map(str, choice.sides)) or 'never reached'} in "
            f"all {TRACE_STEPS} recorded steps: the other side cannot be certified",
            hint="give the inputs limits that reach both sides, "
            "about={'obs': rw.About(low=…, high=…)}, or write the line with torch.where yourself",
        )
        for choice in chosen
        if len(choice.sides) < 2
    ]
    if findings:
        raise ExportError(findings=findings)
