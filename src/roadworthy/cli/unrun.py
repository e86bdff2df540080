"""What a Python file defines, read and not run: a wrong name is said before PyTorch is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# A file that calls one of these, or has such a function, may hold names that nobody can read.
_HIDING = frozenset({"globals", "vars", "exec", "eval", "setattr", "locals", "__getattr__"})
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Defined:
    """The names that a module binds: values and functions, classes, and what it imports."""

    values: tuple[str, ...]
    classes: tuple[str, ...]
    imported: tuple[str, ...]


def defined_in(path: Path) -> Defined | None:
    """What the file defines; None where only running it would tell."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError, RecursionError):
        return None  # running it will say what is wrong
    if any(isinstance(node, ast.Name) and node.id in _HIDING for node in ast.walk(tree)):
        return None
    found: dict[str, str] = {}
    for name, kind in _bound(tree.body):
        if name == "*" or name in _HIDING:
            return None
        found[name] = "value" if name in found else kind  # bound twice: the file decides
    kinds = ("value", "class", "import")
    return Defined(*(tuple(n for n, kind in found.items() if kind == each) for each in kinds))


def _bound(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Each name that the statements of a module bind, those in branches and loops included."""
    for statement in body:
        if isinstance(statement, _Function):
            yield statement.name, "value"
        elif isinstance(statement, ast.ClassDef):
            yield statement.name, "class"
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            yield from ((_alias(each), "import") for each in statement.names)
        else:
            yield from ((name, "value") for name in _stored(statement))
            for field in ("body", "orelse", "finalbody", "handlers", "cases"):
                inside = getattr(statement, field, [])
                yield from _bound([part for each in inside for part in _statements(each)])


def _alias(name: ast.alias) -> str:
    return name.asname or name.name.partition(".")[0]


def _statements(part: ast.AST) -> list[ast.stmt]:
    """A statement itself, or those of an `except` or a `case`."""
    if isinstance(part, ast.stmt):
        return [part]
    return list(getattr(part, "body", []))


def _stored(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement assigns, anywhere in it."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
            yield node.name
