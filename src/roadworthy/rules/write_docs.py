"""`python -m roadworthy.rules.write_docs docs`: the findings as pages for readers of the docs."""

from __future__ import annotations

import sys
from pathlib import Path

from roadworthy.rules import pages

_HEAD = """# Findings

Every error carries findings: a code, where, what is wrong, and what to do. All that is wrong with
a call is reported at once (`error.findings`). `roadworthy explain RW112` prints the long form.

| code | what it means |
|---|---|
"""


def documents() -> dict[str, str]:
    """Path below the folder of the docs → the text that belongs there."""
    found = [pages.page(code) for code in pages.codes()]
    rows = [f"| [{each.code}](findings/{each.code}.md) | {each.title} |\n" for each in found]
    return {
        "findings.md": _HEAD + "".join(rows),
        **{f"findings/{each.code}.md": each.markdown for each in found},
    }


def write(folder: Path) -> None:
    """All documents below `folder`; pages of codes that are gone are removed."""
    wanted = documents()
    (folder / "findings").mkdir(parents=True, exist_ok=True)
    for path in (folder / "findings").glob("RW*.md"):
        if f"findings/{path.name}" not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
