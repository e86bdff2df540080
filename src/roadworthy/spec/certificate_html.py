"""A certificate as a fragment of HTML, which notebooks show."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roadworthy.spec.certificate import Certificate, Check

# Inherited colours and no scripts: a notebook is light or dark, and cleans what it shows.
_VERDICT = "display:inline-block;padding:2px 10px;border-radius:4px;color:#fff;background:{}"
_COLOURS = {True: "#00694f", False: "#a33a00"}


def fragment(certificate: Certificate) -> str:
    """The verdict, one row a check, and the findings."""
    word = "passed" if certificate.passed else "FAILED"
    head = (
        f'<b style="{_VERDICT.format(_COLOURS[certificate.passed])}">{word}</b> '
        f"{certificate.steps} steps in {len(certificate.checks)} checks"
    )
    rows = "".join(_row(check) for check in certificate.checks)
    columns = "".join(f"<th style='text-align:left'>{name}</th>" for name in _COLUMNS)
    findings = "".join(f"<li>{escape(str(each))}</li>" for each in certificate.findings)
    listed = f"<ul>{findings}</ul>" if findings else ""
    return f"<div>{head}<table><tr>{columns}</tr>{rows}</table>{listed}</div>"


_COLUMNS = ("", "check", "claim", "steps", "worst")


def _row(check: Check) -> str:
    worst = max((each.absolute for each in check.differences), default=0.0)
    mark = "✓" if check.passed else "✗ failed"
    words = (mark, check.title, check.claim, str(check.steps), f"{worst:.2g}")
    cells = "".join(f"<td style='text-align:left'>{escape(word)}</td>" for word in words)
    return f"<tr>{cells}</tr>"
