"""What docs/c.md shows of a header, and its ways to link one: as they are written."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "c.md").read_text()
MAIN = """
#include "policy.h"
#include <stdio.h>
int main(void)
{
    static policy_state state;
    static policy_inputs inputs;
    static policy_outputs outputs;
    policy_init(&state);
    policy_step(&state, &inputs, &outputs);
    return printf("%d outputs\\n", (int)(sizeof outputs / sizeof outputs.actions[0][0])) < 0;
}
"""


def section(title: str, kind: str) -> str:
    """The first block of a kind under a heading of the page."""
    text = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    found = re.search(rf"^```{kind}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found is not None, (title, kind)
    return found[1]


def said(words: Sequence[str], folder: Path) -> str:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the page's walker in it, and a program around it."""
    folder = tmp_path_factory.mktemp("robot")
    first = re.search(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert first is not None
    export = first[1].replace('"walker/"', repr(str(folder / "walker")))
    exec(export, {})
    (folder / "main.c").write_text(MAIN)
    return folder


def test_header_is_the_one_of_the_page(robot: Path) -> None:
    shown = section("The interface", "c")
    header = (robot / "walker" / "c" / "policy.h").read_text()
    # Block by block: between them lie the macros that the page leaves out.
    blocks = [block.strip() for block in shown.split("\n\n")]
    assert len(blocks) == 5
    macros, *declared = blocks
    assert set(macros.splitlines()) <= set(header.splitlines())
    assert [block for block in declared if block not in header] == []
    assert sorted(declared, key=header.index) == declared


def test_command_of_the_page_links_it(robot: Path) -> None:
    said(shlex.split(section("Linking it", "")), robot)
    assert said([str(robot / "robot")], robot) == "12 outputs\n"


def test_program_in_cpp_links_what_was_compiled_as_c(robot: Path) -> None:
    (robot / "main.cpp").write_text(MAIN)
    said(["gcc", "-c", "-O1", "walker/c/policy.c", "-o", "policy.o"], robot)
    said(["g++", "-Iwalker/c", "main.cpp", "policy.o", "-lm", "-o", "robot_cpp"], robot)
    assert said([str(robot / "robot_cpp")], robot) == "12 outputs\n"


def test_project_of_cmake_links_it(robot: Path) -> None:
    (robot / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.10)\nproject(robot C)\nadd_executable(robot main.c)\n"
        + section("Linking it", "cmake")
    )
    said(["cmake", "-B", "build"], robot)
    said(["cmake", "--build", "build"], robot)
    assert said([str(robot / "build" / "robot")], robot) == "12 outputs\n"
