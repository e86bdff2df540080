"""A certificate as a fragment of HTML, which notebooks show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roadworthy.spec.html import Html, tag

if TYPE_CHECKING:
    from roadworthy.spec.certificate import Certificate, Check

# Inherited colours and no scripts: a notebook is light or dark, and cleans what it shows.
_VERDICT = "display:inline-block;padding:2px 10px;border-radius:4px;color:#fff;background:{}"
_COLOURS = {True: "#00694f", False: "#a33a00"}
_LEFT = "text-align:left"
_COLUMNS = ("", "check", "claim", "steps", "worst")


def fragment(certificate: Certificate) -> Html:
    """The verdict, one row a check, and the findings."""
    word = "passed" if certificate.passed else "FAILED"
    columns = [tag("th", name, style=_LEFT) for name in _COLUMNS]
    findings = [tag("li", str(finding)) for finding in certificate.findings]
    return tag(
        "div",
        tag("b", word, style=_VERDICT.format(_COLOURS[certificate.passed])),
        f" {certificate.steps} steps in {len(certificate.checks)} checks",
        tag("table", tag("tr", columns), [_row(check) for check in certificate.checks]),
        tag("ul", findings) if findings else None,
    )


def _row(check: Check) -> Html:
    worst = max((each.absolute for each in check.differences), default=0.0)
    mark = "✓" if check.passed else "✗ failed"
    words = (mark, check.title, check.claim, str(check.steps), f"{worst:.2g}")
    return tag("tr", [tag("td", word, style=_LEFT) for word in words])
