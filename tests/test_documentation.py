"""Every code block and every command in the documentation runs as it stands."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from roadworthy.rules.pages import codes
from roadworthy.rules.write_docs import documents
from tests.cli.conftest import roadworthy
from tests.tiers import by_framework

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# What stands right behind the code that prints it.
PRINTED = re.compile(r"^```\n\n```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
# The two that everybody reads first stand for the others, which are left to `make test-all`.
IN_MAKE_TEST = (ROOT / "README.md", ROOT / "docs" / "tutorial.md")
BINARY = {".safetensors", ".pt", ".pth", ".npz", ".pkl", ".zip", ".png", ".xz"}
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text())


def scripts(page: Path) -> str:
    return "\n".join(text for kind, text in blocks(page) if kind == "python")


def commands(page: Path) -> list[str]:
    lines = [line for kind, text in blocks(page) if kind == "console" for line in text.splitlines()]
    return [line.partition(" #")[0].strip() for line in lines if line.strip()]


@pytest.mark.parametrize(
    "page", by_framework(PAGES, scripts, IN_MAKE_TEST), ids=lambda page: page.name
)
def test_the_python_blocks_of_a_page_run_in_order(page: Path, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", scripts(page)],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    for shown in PRINTED.findall(page.read_text()):
        assert shown in run.stdout, run.stdout
    own = [line for line in commands(page) if line.startswith("roadworthy ")]
    for command in own:
        code, said = (
            in_shell(command, tmp_path) if page.name == "README.md" else here(command, tmp_path)
        )
        assert code == 0, f"{command}\n{said}"


def in_shell(command: str, cwd: Path) -> tuple[int, str]:
    """Exit code and words of a command in the user's shell."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, shell=True, cwd=cwd, capture_output=True, text=True,
        env=os.environ | {"PATH": path},
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def here(command: str, cwd: Path) -> tuple[int, str]:
    """The same in this process: PyTorch is imported once, where a page has many commands."""
    _, *words = shlex.split(command)
    done = roadworthy(*words, cwd=cwd)
    return done.code, done.out + done.err


def test_refusals_and_results_are_shown_as_they_are_printed() -> None:
    pages = [page.name for page in PAGES if PRINTED.search(page.read_text())]
    assert {"README.md", "tutorial.md", "doctor.md", "environments.md"} <= set(pages)


def test_every_make_command_in_the_readme_is_a_target() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    wanted = [line.split()[1] for line in commands(ROOT / "README.md") if line.startswith("make ")]
    assert {"demo", "test"} <= set(wanted) <= set(targets)


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in (*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md"):
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_finding_code_has_a_page_and_every_page_a_code() -> None:
    used = {code for path in SOURCES for code in re.findall(r'"(RW\d{3})"', path.read_text())}
    assert used - {"RW000"} == set(codes())


def test_the_pages_of_the_findings_are_those_of_the_package() -> None:
    found = [ROOT / "docs" / "findings.md", *(ROOT / "docs" / "findings").iterdir()]
    written = {path.relative_to(ROOT / "docs").as_posix(): path.read_text() for path in found}
    assert written == documents(), "run `make docs`"


def test_the_changelog_knows_the_version() -> None:
    import roadworthy

    assert f"## [{roadworthy.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_no_file_names_a_registry_or_a_path_of_a_machine() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    forbidden = ("--index" + "-url", "/ro" + "ot/", "/wo" + "rk/", "pypi" + ".org")
    for name in listed.stdout.split():
        path = ROOT / name
        if path.suffix in BINARY or not path.is_file():
            continue
        text = path.read_text()
        assert not [word for word in forbidden if word in text], name
