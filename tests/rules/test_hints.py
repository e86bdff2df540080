"""A hint is a promise: the code in it is Python, and what it names exists."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import roadworthy as rw
from roadworthy.cli.app import app

SOURCE = Path(rw.__file__).parent
# The keywords of a framework, which `export` and `verify` hand on to its adapter.
FRAMEWORK = {"actor", "auto", "env", "exploration", "vecnormalize"}
CALL = re.compile(
    r"\brw\.\w+\("
    r"|\b(?:memory|example|about|action|normalizer|outputs|targets|options|dynamic"
    r"|decompositions|translations|constants)=(?=[\[({]|rw\.)"
)


def text(node: ast.expr) -> str:
    """What a string literal says, with a name for each value that is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            part.value if isinstance(part, ast.Constant) else "filled_in" for part in node.values
        )
    return ""


def literals(node: ast.AST) -> Iterator[ast.Constant | ast.JoinedStr]:
    """The string literals below a node, whole; no docstrings."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Constant):
            if isinstance(child.value, str) and not isinstance(node, ast.Expr | ast.JoinedStr):
                yield child
            continue
        if isinstance(child, ast.JoinedStr):
            yield child
        yield from literals(child)


def texts() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        for node in literals(ast.parse(path.read_text())):
            said = text(node)
            if " " in said or "=" in said:
                yield f"{place}:{node.lineno}", said


# Read once: every worker of a run collects these tests.
TEXTS = list(texts())


def closed(said: str, start: int) -> str:
    """The piece of code that begins at `start`, up to the bracket that ends it."""
    depth = 0
    for index in range(start, len(said)):
        depth += (said[index] in "([{") - (said[index] in ")]}")
        if depth == 0 and said[index] in ")]}":
            return said[start : index + 1]
    return said[start:]


def code() -> Iterator[Any]:
    for place, said in TEXTS:
        for match in CALL.finditer(said):
            yield pytest.param(closed(said, match.start()), id=f"{place}:{match.start()}")


@pytest.mark.parametrize("piece", list(code()))
def test_the_code_in_a_hint_is_python_with_keywords_that_exist(piece: str) -> None:
    # What is filled in after a keyword is more keywords.
    filled = re.sub(r"(=[^,]+, )filled_in\)", r"\1**filled_in)", piece.replace("…", "..."))
    (call,) = ast.parse(f"print({filled})").body
    for node in ast.walk(call):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        called = getattr(rw, node.func.attr, None) if ast.unparse(node.func)[:3] == "rw." else None
        if called is not None:
            known = {*inspect.signature(called).parameters, *FRAMEWORK}
            assert {each.arg for each in node.keywords if each.arg} <= known


def test_every_public_name_in_a_message_exists() -> None:
    named = {(place, name) for place, said in TEXTS for name in re.findall(r"\brw\.(\w+)", said)}
    assert len(named) > 20
    assert [each for each in named if each[1] not in rw.__all__] == []


def test_every_option_in_a_message_exists() -> None:
    command: Any = typer.main.get_command(app)
    params = [p for verb in (command, *command.commands.values()) for p in verb.params]
    known = {name for p in params for name in (*p.opts, *p.secondary_opts)}
    named = {
        (place, name)
        for place, said in TEXTS
        for name in re.findall(r"(?<!\w)--[a-z][a-z-]*", said)
    }
    known |= {"--version", "--json", "--upgrade", "--help", "--debug"}
    # Those of pip, Ray, CMake and the linker.
    known |= {"--force-reinstall", "--head", "--build", "--export"}
    assert [each for each in named if each[1] not in known] == []
