"""The parts of a report that are words and tables: verdict, checks, ports, findings, sums."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence

from roadworthy.errors import Finding
from roadworthy.rules.pages import codes, page
from roadworthy.show.page import section
from roadworthy.spec.bundle import Bundle
from roadworthy.spec.certificate import Certificate
from roadworthy.spec.html import Html, Part, tag
from roadworthy.spec.limits import size_text
from roadworthy.spec.port import Memory, Port
from roadworthy.spec.signature import Signature


def table(columns: Sequence[str], rows: Iterable[Sequence[Part]], *, caption: str = "") -> Html:
    """A table; ">" before the name of a column makes it one of numbers. Empty ones are left out."""
    listed = list(rows)
    kept = [at for at in range(len(columns)) if any(row[at] not in ("", None) for row in listed)]
    columns = [columns[at] for at in kept]
    kinds = ["number" if name.startswith(">") else None for name in columns]
    head = [
        tag("th", name.lstrip(">"), scope="col", class_=kind)
        for name, kind in zip(columns, kinds, strict=True)
    ]
    body = [
        tag("tr", [tag("td", row[at], class_=kind) for at, kind in zip(kept, kinds, strict=True)])
        for row in listed
    ]
    named = tag("caption", caption) if caption else None
    inside = tag("table", named, tag("thead", tag("tr", head)), tag("tbody", body))
    return tag(
        "div", inside, class_="wide", tabindex=0, role="region", aria_label=caption or "table"
    )


def verdict(certificate: Certificate) -> Html:
    """Passed or failed, in a word that a program finds by its id."""
    word = "passed" if certificate.passed else "failed"
    return tag("strong", word, id="verdict", class_=f"verdict {word}")


def headline(certificate: Certificate) -> str:
    """What was compared, in a sentence."""
    failed = [check for check in certificate.checks if not check.passed]
    steps = f"{certificate.steps:,} steps in {len(certificate.checks)} checks"
    if failed:
        return f"{steps}; failed: {', '.join(check.title for check in failed)}"
    if not certificate.roundings:
        return f"{steps}, and not one of them out of tolerance"
    furthest = max(certificate.roundings.values())
    return (
        f"{steps}; never further from the exact policy than {furthest:.2g}× PyTorch's own rounding"
    )


def checks_section(certificate: Certificate) -> Html:
    """Every claim and how it held, and the worst place of every port."""
    rows = [
        (
            mark(check.passed),
            check.title,
            check.claim,
            f"{check.steps:,}",
            _share(max((each.share for each in check.differences), default=0.0)),
        )
        for check in certificate.checks
    ]
    columns = ("", "check", "claim", ">steps", ">of what is allowed")
    return section(
        "checks",
        "What was compared",
        table(columns, rows, caption="Each check, and how much of its tolerance it takes"),
        _worst_table(certificate),
    )


def _worst_table(certificate: Certificate) -> Html | None:
    rows = [
        (
            each.port
            + "".join(f"[{axis}]" for axis in each.index[:-1])
            + (f"[{each.element or each.index[-1]}]" if each.index else ""),
            str(each.step),
            f"{each.expected:.9g}",
            f"{each.got:.9g}",
            f"{each.absolute:.2e}",
            f"{each.allowed:.2e}",
            "" if each.roundings is None else f"{each.roundings:.2g}×",
        )
        for each in certificate.worst.values()
    ]
    if not rows:
        return None
    columns = ("port", ">step", ">original", ">artifact", ">off by", ">allowed", ">roundings")
    return table(columns, rows, caption="The worst place of each port, in any check")


def mark(passed: bool) -> Html:
    """A sign for a claim that held, or did not."""
    word, sign = ("passed", "✓") if passed else ("failed", "✗")
    return tag("span", sign, class_=word, title=word, role="img", aria_label=word)


def _share(part: float) -> str:
    return "beyond" if math.isinf(part) else f"{100 * part:.3g} %"


def ports_section(signature: Signature) -> Html:
    """What goes in, what comes out, what is remembered, and what the numbers mean."""
    rows: list[Sequence[Part]] = []
    kinds: tuple[tuple[str, Sequence[Port | Memory]], ...] = (
        ("input", signature.inputs),
        ("output", signature.outputs),
        ("memory", signature.memory),
    )
    for kind, ports in kinds:
        for port in ports:
            about = port.about if isinstance(port, Port) else None
            unit = about.unit if about else ""
            means = about.description if about else f"{port.input} → {port.output}"  # type: ignore[union-attr]
            names = ", ".join(about.elements) if about else ""
            rows.append((kind, port.name, str(port), unit, ". ".join(filter(None, (means, names)))))
    period = f"one step every {signature.period_s:g} s. " if signature.period_s else ""
    action = (
        f"The action {signature.action.output!r} is {signature.action}." if signature.action else ""
    )
    return section(
        "ports",
        "Ports",
        tag("p", period + action) if period or action else None,
        table(("", "name", "type", "unit", "meaning"), rows, caption="What goes in and out"),
    )


def findings_section(findings: Sequence[Finding]) -> Html:
    """Each finding with the page that explains it."""
    known = set(codes())
    listed = [_finding(each, known) for each in findings]
    nothing = tag("p", "Nothing was found that a person should look at.", class_="quiet")
    return section("findings", "Findings", *(listed or [nothing]))


def _finding(finding: Finding, known: set[str]) -> Html:
    head = tag(
        "summary",
        tag("span", finding.code, class_=f"code {finding.severity}"),
        " ",
        tag("b", f"{finding.where}: ") if finding.where else None,
        finding.what,
    )
    hint = tag("p", tag("b", "What to do here: "), finding.hint) if finding.hint else None
    long = None
    if finding.code in known:
        told = page(finding.code)
        long = tag(
            "div",
            tag("h3", told.title),
            *(tag("p", text) for text in _paragraphs(told.meaning)),
            tag("h4", "Why it matters"),
            *(tag("p", text) for text in _paragraphs(told.why)),
            tag("h4", "What to do"),
            *(tag("p", text) for text in _paragraphs(told.what_to_do)),
            tag("h4", "Before"),
            tag("pre", told.before),
            tag("h4", "After"),
            tag("pre", told.after),
            class_="page",
        )
    return tag("details", head, hint, long, class_="finding")


def _paragraphs(text: str) -> list[str]:
    return [each.strip() for each in text.split("\n\n") if each.strip()]


def provenance_section(bundle: Bundle) -> Html:
    """What it was made with, and the sum of every file."""
    made = [(key, str(value)) for key, value in bundle.manifest.get("provenance", {}).items()]
    waived = [str(each) for each in bundle.manifest.get("waivers", ())]
    files = [
        (name, size_text(len(data)), tag("code", hashlib.sha256(data).hexdigest()))
        for name, data in bundle.files.items()
    ]
    return section(
        "provenance",
        "Provenance",
        table(("made with", "version"), made, caption="What made it") if made else None,
        tag("p", tag("b", "Waived: "), ", ".join(waived)) if waived else None,
        table(("file", ">size", "SHA-256"), files, caption="Every file and its sum"),
    )
