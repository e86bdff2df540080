"""Every page shows a script that meets its finding, and the same script put right."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
from pathlib import Path

import pytest

from roadworthy.errors import RoadworthyError, UsageError
from roadworthy.rules.pages import Page, codes, page, parsed
from tests.tiers import by_framework

# Nothing that a script does on one machine shows these on every machine.
NO_SCRIPT = {
    "RW002",
    "RW003",
    "RW125",
    "RW186",
    "RW188",
    "RW196",
    "RW206",
    "RW215",
    "RW352",
    "RW353",
    "RW900",
}
# A script that diagnoses without an example is told so, whatever else it shows.
ONLY_READ = "RW171"
SHOWN = [code for code in codes() if code not in NO_SCRIPT]


def reported(script: str, folder: Path) -> set[str]:
    """The codes that a script raises or prints."""
    file = folder / "script.py"
    file.write_text(script + "\n")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            runpy.run_path(str(file), run_name="__main__")
        except RoadworthyError as error:
            return {finding.code for finding in error.findings}
    return set(re.findall(r"RW\d{3}", printed.getvalue()))


@pytest.mark.parametrize("code", by_framework(SHOWN, lambda code: page(code).markdown))
def test_before_meets_the_finding_and_after_does_not(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = page(code)
    assert shown.language == "python"
    assert shown.before != shown.after
    assert code in reported(shown.before, tmp_path)
    assert reported(shown.after, tmp_path) <= ({ONLY_READ} if code != ONLY_READ else set())


@pytest.mark.parametrize("code", sorted(NO_SCRIPT))
def test_a_finding_without_a_script_shows_what_is_printed(code: str) -> None:
    shown = page(code)
    assert shown.language == "text"
    assert code in shown.before


@pytest.mark.parametrize("code", codes())
def test_a_page_is_named_by_its_code_and_short_enough_to_read(code: str) -> None:
    shown = page(code)
    assert shown.code == code
    assert not shown.title.endswith(".")
    assert max(map(len, shown.markdown.splitlines())) <= 110
    assert page(code.lower()) == shown


def test_an_unknown_code_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        page("RW1112")
    assert str(caught.value).startswith(
        "[RW001] there is no finding 'RW1112'\n  → did you mean 'RW11"
    )


def test_a_code_like_none_is_answered_with_the_list() -> None:
    with pytest.raises(UsageError) as caught:
        page("help")
    assert caught.value.findings[0].hint.startswith("known: 'RW001', 'RW002', ")


GOOD = page("RW112").markdown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("# RW112:", "# Hidden state:"), "does not begin with '# RW…: a title'"),
        (GOOD.replace("## Why it matters", "## Why"), "has the sections Why, What to do, Before"),
        (GOOD.replace("```python", "```py"), "Before and After are one ```python block each"),
    ],
)
def test_a_page_of_another_form_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        parsed(text, "RW112.md")


def test_a_page_has_all_its_parts() -> None:
    shown = page("RW112")
    assert isinstance(shown, Page)
    assert shown.title == "state that was not declared"
    assert shown.meaning.startswith("A call leaves something behind, and a later call reads it")
    assert shown.why.startswith("A graph has no attributes")
    assert shown.what_to_do.startswith("Declare what persists")
    assert shown.before.startswith("import torch\n")
    assert 'memory={"hidden": "hidden"}' in shown.after
