"""The one way to a page: a template, what stands in it, and where it is written."""

from __future__ import annotations

import html
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

from roadworthy.errors import UsageError
from roadworthy.spec.bundle import is_bundle, readable
from roadworthy.spec.html import Html, Part, joined, tag

_PAGE = b"<!doctype html"


def asset(name: str, *, of: str = "roadworthy.show") -> str:
    """The text of a file in the `assets` of a package."""
    return files(of).joinpath("assets", name).read_text(encoding="utf-8")


def page(template: str, *, title: str, body: Html, **parts: str) -> str:
    """The template with its places filled; only the title is plain text, and is escaped."""
    return Template(template).substitute(title=html.escape(title), body=body, **parts)


def section(name: str, title: str, *inside: Part) -> Html:
    """A section of a page, which a link finds by its name."""
    return tag("section", tag("h2", title), *inside, id=name)


def document(title: str, head: Html, sections: Sequence[Html | None]) -> str:
    """The whole file: a heading, links to the sections, the sections."""
    shown = [section for section in sections if section is not None]
    body = joined(
        (
            tag("header", tag("p", "Roadworthy", class_="brand"), tag("h1", title), head),
            tag("nav", id="contents", aria_label="sections"),
            tag("main", *shown),
        )
    )
    style = asset("theme.css") + asset("report.css")
    template = asset("report.html")
    return page(
        template, title=f"{title}: report", body=body, style=style, script=asset("report.js")
    )


def save(text: str, place: Path) -> Path:
    """The path, at which the text now is."""
    if place.is_dir():
        raise UsageError(f"{place} is a folder", hint=f"name a file: {place / 'report.html'}")
    if not place.parent.is_dir():
        raise UsageError(f"there is no folder {place.parent}", hint=f"mkdir -p {place.parent}")
    _refuse_other_file(place)
    place.write_text(text, encoding="utf-8")
    return place


def _refuse_other_file(place: Path) -> None:
    """An error before something is lost: only a page may be written over, and no bundle touched."""
    if is_bundle(place.parent):
        raise UsageError(
            f"{place.parent} is a bundle, and holds nothing but what its sums list",
            hint=f"write beside it: {place.parent.resolve().parent / 'report.html'}",
        )
    if not place.exists():
        return
    with readable(place), place.open("rb") as file:
        begins = file.read(len(_PAGE))
    if not begins.lower().startswith(_PAGE):
        raise UsageError(
            f"{place} is there already, and is no report", hint="name another file with -o"
        )
