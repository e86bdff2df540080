"""The docs have a way through them, and say of the code what is so."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

import roadworthy
from tests.test_layers import BASE, MAY_IMPORT

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
ARCHITECTURE = (DOCS / "architecture.md").read_text()
ROOMS = set(MAY_IMPORT) - BASE - {"__main__"}


@pytest.fixture(scope="module")
def write_api() -> ModuleType:
    """The script that writes the reference, as a module."""
    spec = importlib.util.spec_from_file_location("write_api", DOCS / "write_api.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["write_api"] = module
    spec.loader.exec_module(module)
    return module


def links(page: Path) -> set[Path]:
    """The files of this repository that a page leads to."""
    found = re.findall(r"\]\((?!http)([^)#]+)[^)]*\)", page.read_text())
    return {(page.parent / each).resolve() for each in found}


def test_every_page_can_be_reached_from_the_index() -> None:
    reached, waiting = set[Path](), [DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        waiting += [each for each in links(page) if each.suffix == ".md" and each not in reached]
    assert {*DOCS.rglob("*.md"), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"} <= reached
    assert {*DOCS.glob("*.json")} <= links(DOCS / "index.md")


def test_readme_leads_to_the_index() -> None:
    assert DOCS / "index.md" in links(ROOT / "README.md")


def test_index_names_every_page_of_its_folder() -> None:
    assert {*DOCS.glob("*.md")} - {DOCS / "index.md"} <= links(DOCS / "index.md")


def test_reference_is_what_the_docstrings_say(write_api: ModuleType) -> None:
    assert (DOCS / "api.md").read_text() == write_api.document(), "run `make docs`"


def test_reference_has_every_public_name_once(write_api: ModuleType) -> None:
    from roadworthy import environment
    from roadworthy.compat import exploy

    titles = [entry.title for entries in write_api.chapters().values() for entry in entries]
    assert len(titles) == len(set(titles))
    assert {f"rw.{name}" for name in roadworthy.__all__} - set(titles) == {"rw.__version__"}
    shown = {title.rpartition(".")[2] for title in titles}
    assert {*environment.__all__, *exploy.__all__} <= shown


def test_links_inside_the_reference_lead_to_a_heading(write_api: ModuleType) -> None:
    page = (DOCS / "api.md").read_text()
    headings = re.findall(r"^### (.+)$", page, re.MULTILINE)
    anchors = {"#" + re.sub(r"[^\w-]", "", each.lower()) for each in headings}
    wanted = set(re.findall(r"\]\((#[^)]+)\)", page))
    assert len(wanted) > 50
    assert wanted <= anchors
    elsewhere = re.findall(r"api\.md(#[^)]+)\)", (DOCS / "index.md").read_text())
    assert set(elsewhere) <= anchors


def test_architecture_has_a_paragraph_for_every_room() -> None:
    chapter = ARCHITECTURE.partition("## The rooms")[2].partition("\n## ")[0]
    assert set(re.findall(r"\*\*`([\w.]+)`\*\*", chapter)) == ROOMS | BASE


def allowed() -> dict[str, set[str]]:
    """Room → what it may import, as the table of the page says."""
    table = ARCHITECTURE.partition("| room | may import |")[2].partition("\n\n")[0]
    found: dict[str, set[str]] = {}
    for row in table.splitlines()[2:]:
        rooms, text = (re.findall(r"`([\w.]+)`", row.split("|")[1]), row.split("|")[2])
        names = set(re.findall(r"`([\w.]+)`", text))
        if "everything above" in text:
            names = set(found)
        elif last := re.search(r"everything up to `([\w.]+)`", text):
            order = list(found)
            names |= set(order[: order.index(last[1]) + 1])
        elif "everything but" in text:
            names = ROOMS - names - set(rooms)
        found |= dict.fromkeys(rooms, names)
    return found


def test_architecture_says_who_may_import_whom() -> None:
    kept = {room: MAY_IMPORT[room] - BASE - {room} for room in ROOMS}
    assert allowed() == kept


def test_files_that_the_architecture_names_exist() -> None:
    names = re.findall(r"`([\w/]+(?:/|\.py))`", ARCHITECTURE)
    package = ROOT / "src" / "roadworthy"
    assert len(names) > 15
    for name in names:
        places = [ROOT / name, package / name, *package.glob(f"**/{name}")]
        assert any(place.exists() for place in places), name


def test_picture_names_the_rooms_and_needs_nothing_from_outside() -> None:
    text = (DOCS / "architecture.svg").read_text()
    words = " ".join(each.text or "" for each in ElementTree.fromstring(text).iter())
    for name in ("source", "Program", "Bundle", "Policy", "doctor", "original", "verification"):
        assert name in words
    assert re.findall(r"(?:href|url\(|src)=?\W*http", text) == []
    assert "prefers-color-scheme: dark" in text
