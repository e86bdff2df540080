"""What people see: tables, findings, and the stage of long work."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from roadworthy.errors import Finding
from roadworthy.errors.progress import told
from roadworthy.spec.certificate import Certificate, Check
from roadworthy.spec.port import shape_text
from roadworthy.spec.robot import PER_JOINT, Robot
from roadworthy.spec.signature import Signature

_COLOURS = {"error": "bold red", "warning": "yellow", "note": "cyan"}


def out() -> Console:
    return Console(highlight=False)


def print_json(data: Any) -> None:
    sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def print_findings(findings: Sequence[Finding], *, stderr: bool = True) -> None:
    """Each finding: code and place, what is wrong, and below it what to do."""
    console = Console(stderr=stderr, highlight=False)
    for finding in findings:
        console.print(*finding_lines(finding), sep="\n")


def finding_lines(finding: Finding) -> list[Text]:
    """The finding, and below it what to do."""
    place = f"{finding.where}: " if finding.where else ""
    head = Text.assemble((finding.code, _COLOURS[finding.severity]), " ", place, finding.what)
    return [head, *([Text.assemble(("  → ", "green"), finding.hint)] if finding.hint else [])]


def working(*, silent: bool) -> AbstractContextManager[Callable[[str], None]]:
    """The function to which stages of the work are said, shown where someone is looking."""
    return told(False if silent else None)


def table(*columns: str, title: str | None = None) -> Table:
    made = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column in columns:
        numeric = column.startswith(">")
        made.add_column(
            column.removeprefix(">"),
            justify="right" if numeric else "left",
            header_style="dim",
            overflow="fold",
        )
    return made


def signature_table(signature: Signature) -> Table:
    made = table("", "port", "type", "meaning", title="Signature")
    for kind, ports in (("input", signature.inputs), ("output", signature.outputs)):
        for port in ports:
            about = port.about
            limits = f"[{about.low}, {about.high}]" if about.low is not None else ""
            elements = ", ".join(about.elements[:4]) + (" …" if len(about.elements) > 4 else "")
            meaning = (about.description, about.unit, limits, elements)
            made.add_row(kind, port.name, str(port), Text(" · ".join(filter(None, meaning))))
    for memory in signature.memory:
        start = "…" if isinstance(memory.initial, tuple) else f"{memory.initial:g}"
        course = f"from {start} · {memory.input} → {memory.output}"
        made.add_row("memory", memory.name, f"{memory.dtype} {shape_text(memory.shape)}", course)
    if signature.action:
        made.add_row("action", signature.action.output, str(signature.action), "")
    if signature.period_s:
        made.add_row("period", "", f"{signature.period_s:g} s", "")
    if signature.frame_skip:
        made.add_row("frames", "", f"{signature.frame_skip} for each action", "")
    return made


def robot_table(robot: Robot) -> Table:
    """Every joint with its numbers, and what each element of the action means to it."""
    shown = [key for key in PER_JOINT if getattr(robot, key)]
    action = robot.action
    ours = [key for key in ("scale", "offset") if action and getattr(action, key)]
    columns = [*(f">{key}" for key in shown), *(f">action {key}" for key in ours)]
    made = table(">motor" if robot.motors else "", "joint", ">action", *columns, title="Robot")
    for name in robot.joints:
        numbers = [dict(getattr(robot, key)).get(name) for key in shown]
        numbers += [dict(getattr(action, key)).get(name) for key in ours]
        made.add_row(
            str(robot.motors.index(name)) if robot.motors else "",
            name,
            str(action.joints.index(name)) if action and name in action.joints else "",
            *("–" if each is None else f"{each:g}" for each in numbers),
        )
    return made


def certificate_table(certificate: Certificate) -> Table:
    verdict = "passed" if certificate.passed else "FAILED"
    made = table("", "check", "claim", ">steps", ">worst", title=f"Certificate {verdict}")
    for check in certificate.checks:
        mark = Text("✓", "green") if check.passed else Text("✗", "bold red")
        made.add_row(mark, check.title, check.claim, str(check.steps), _worst(check))
    return made


def _worst(check: Check) -> str:
    if not check.differences:
        return "0"
    worst = max(each.absolute for each in check.differences)
    return f"{worst:.1e}" if worst else "0"


def print_certificate(certificate: Certificate) -> None:
    console = out()
    console.print(certificate_table(certificate))
    print_findings([*certificate.failures, *certificate.findings], stderr=False)


def size_text(count: int) -> str:
    return f"{count / 1024:.1f} KB" if count < 1024**2 else f"{count / 1024**2:.1f} MB"
