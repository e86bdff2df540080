"""The long form of every finding: what it means, why it matters, what to do, before and after."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files

from roadworthy.errors import UsageError, did_you_mean

_TITLE = re.compile(r"# (RW\d{3}): (.+)")
_FENCE = re.compile(r"```(python|text)\n(.*)\n```", re.DOTALL)
_SECTIONS = ("Why it matters", "What to do", "Before", "After")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One finding explained; `before` raises it, `after` is the same script put right.

    `language` is "text" for the few findings that no script can show.
    """

    code: str
    title: str
    meaning: str
    why: str
    what_to_do: str
    before: str
    after: str
    language: str
    markdown: str


def codes() -> list[str]:
    """Every code that has a page, in order."""
    folder = files("roadworthy.rules").joinpath("pages")
    names = (each.name for each in folder.iterdir())
    return sorted(name.removesuffix(".md") for name in names if name.endswith(".md"))


def page(code: str) -> Page:
    """The page of a code such as "RW012"."""
    known = codes()
    if code.upper() not in known:
        raise UsageError(f"there is no finding {code!r}", hint=did_you_mean(code.upper(), known))
    name = f"{code.upper()}.md"
    text = files("roadworthy.rules").joinpath("pages", name).read_text(encoding="utf-8")
    return parsed(text, name)


def parsed(text: str, name: str) -> Page:
    """The page that `text` is, or an error that says which of its parts is missing."""
    head, *rest = re.split(r"^## ", text, flags=re.MULTILINE)
    title, _, meaning = head.partition("\n")
    match = _TITLE.fullmatch(title)
    if match is None or not meaning.strip():
        raise UsageError(f"{name} does not begin with '# RW…: a title' and a sentence")
    parts = {}
    for each in rest:
        heading, _, body = each.partition("\n")
        parts[heading.strip()] = body.strip()
    if tuple(parts) != _SECTIONS:
        raise UsageError(f"{name} has the sections {', '.join(parts)}; expected {_SECTIONS}")
    before, after = (_FENCE.fullmatch(parts[heading]) for heading in ("Before", "After"))
    if before is None or after is None:
        raise UsageError(f"{name}: Before and After are one ```python block each")
    return Page(
        code=match[1],
        title=match[2],
        meaning=meaning.strip(),
        why=parts["Why it matters"],
        what_to_do=parts["What to do"],
        before=before[2],
        after=after[2],
        language=before[1],
        markdown=text,
    )
