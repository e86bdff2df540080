"""Lines that no run reached and that would write what the captured step reads.

A command that lives for ten seconds, a fault that is latched beyond a limit: no run is long or wild
enough for all of them, but the code says what they do.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
import types
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from roadworthy.errors.lines import is_authors_class
from roadworthy.inspection.entered import is_authors_code
from roadworthy.inspection.walking import walk

_ORDERING = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_WRITING = ("append", "appendleft", "extend", "pop", "popleft", "insert", "clear", "update", "add")

Lines = dict[types.CodeType, set[int]]


@dataclass(frozen=True, slots=True)
class Unreached:
    """A line that writes an attribute of that name, and did not run."""

    attribute: str
    line: str
    code: types.CodeType


@contextmanager
def lines_noted(noted: Lines) -> Iterator[None]:
    """Notes which lines of the author's run until the block ends, each once."""
    before = sys.gettrace()

    def enter(frame: types.FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        if not is_authors_code(code):
            return None
        seen = noted.setdefault(code, set())

        def local(frame: types.FrameType, event: str, arg: Any) -> Any:
            seen.add(frame.f_lineno)
            return local

        seen.add(frame.f_lineno)
        return local

    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)


def unreached(env: object, noted: Lines) -> list[Unreached]:
    """The lines that did not run, behind a comparison, and that would write an attribute."""
    search = _Search(_methods(env), noted)
    for code in list(noted):
        search.look(code, called=False)
    return list(dict.fromkeys(search.found))


@dataclass(slots=True)
class _Search:
    methods: Mapping[str, list[types.CodeType]]
    noted: Lines
    found: list[Unreached] = field(default_factory=list)
    _called: set[types.CodeType] = field(default_factory=set)

    def look(self, code: types.CodeType, *, called: bool) -> None:
        """Looks through a code; `called` says that only an unreached line leads to it."""
        tree, first = _parsed(code)
        if tree is not None:
            ran = set() if called else {line - first + 1 for line in self.noted.get(code, ())}
            self._statements(code, first, ast.iter_child_nodes(tree), ran, behind=called)

    def _statements(
        self,
        code: types.CodeType,
        first: int,
        nodes: Iterable[ast.AST],
        ran: set[int],
        *,
        behind: bool,
    ) -> None:
        for node in nodes:
            if isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
                continue
            if isinstance(node, ast.If):
                compares = behind or _compares(node.test)
                self._statements(code, first, node.body, ran, behind=compares)
                self._statements(code, first, node.orelse, ran, behind=compares)
            elif isinstance(node, ast.stmt) and not hasattr(node, "body"):
                lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                if behind and not ran.intersection(lines):
                    self._unreached(code, first, node)
            else:
                self._statements(code, first, ast.iter_child_nodes(node), ran, behind=behind)

    def _unreached(self, code: types.CodeType, first: int, node: ast.stmt) -> None:
        text = ast.unparse(node).partition("\n")[0]
        line = f"{Path(code.co_filename).name}:{first + node.lineno - 1} ({text})"
        self.found += [Unreached(name, line, code) for name in _written(node)]
        for each in ast.walk(node):
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute):
                for other in self.methods.get(each.func.attr, ()):
                    if other not in self.noted and other not in self._called:
                        self._called.add(other)
                        self.look(other, called=True)


def _parsed(code: types.CodeType) -> tuple[ast.AST | None, int]:
    """The function of a code as a tree, and the line at which it begins."""
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, TypeError):  # written nowhere, or a lambda inside of a line
        return None, 0
    whole = tree.body[0] if tree.body else None
    return (whole if isinstance(whole, ast.FunctionDef) else None), first


def _compares(test: ast.expr) -> bool:
    """Whether a condition compares: a flag of the configuration does not, nor does `is None`."""
    return any(
        isinstance(each, ast.Compare) and any(isinstance(op, _ORDERING) for op in each.ops)
        for each in ast.walk(test)
    )


def _written(node: ast.stmt) -> Iterator[str]:
    """The names of the attributes that a statement writes."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        targets = [node.target]
    for target in targets:
        for each in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
            yield from _attribute(each)
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            name = call.func.attr
            if name in _WRITING or (name.endswith("_") and not name.endswith("__")):
                yield from _attribute(call.func.value)


def _attribute(node: ast.expr) -> Iterator[str]:
    while isinstance(node, (ast.Subscript, ast.Starred)):
        node = node.value
    if isinstance(node, ast.Attribute):
        yield node.attr


def _methods(env: object) -> dict[str, list[types.CodeType]]:
    """Name → the methods of that name, of the author's classes in the environment."""
    found: dict[str, list[types.CodeType]] = {}
    kinds = {kind for _, value in walk(env) for kind in type(value).__mro__}
    for kind in kinds:
        if is_authors_class(kind):
            for name, each in vars(kind).items():
                if isinstance(each, types.FunctionType):
                    found.setdefault(name, []).append(each.__code__)
    return found
