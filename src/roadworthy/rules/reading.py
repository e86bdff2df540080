"""Reading `forward`, and the methods it calls, for what a graph could not hold."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from roadworthy.operators.asking import counts_values, draws
from roadworthy.rules.reached import Lines
from roadworthy.rules.taint import Taint, called, dotted, inputs_of

Kind = Literal["branch", "number", "numpy", "state", "random", "shape", "operator", "function"]

_NUMBERS = {"item", "tolist", "__float__", "__int__", "__bool__"}
_CASTS = {"float", "int", "bool"}
_WRITES = {"append", "appendleft", "extend", "insert", "pop", "popleft", "clear", "update"}
_CORE_OPERATORS = {"aten", "prims", "prim", "higher_order"}
_LEAVING = (ast.Return, ast.Raise, ast.Break, ast.Continue)


@dataclass(frozen=True, slots=True)
class CodePattern:
    """One thing that was seen: where, and for state, in which attribute."""

    kind: Kind
    where: str
    name: str = ""


@dataclass(slots=True)
class _Method:
    """A method being read."""

    owner: type
    tree: ast.FunctionDef
    lines: list[str]
    file: str
    first: int
    space: dict[str, Any]
    taint: Taint
    read_first: set[str]
    reached: Lines = frozenset()

    def where(self, node: ast.AST) -> str:
        line = getattr(node, "lineno", 1)
        return f"{self.file}:{self.first + line - 1} ({self.lines[line - 1].strip()})"

    def ran(self, node: ast.stmt) -> bool:
        """Whether a statement is among the lines that a call runs; it may leave no instruction."""
        silent = isinstance(node, (ast.Pass, ast.Global, ast.Nonlocal)) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        )
        lines = range(self.first + node.lineno - 1, self.first + (node.end_lineno or node.lineno))
        return silent or any((self.file, line) in self.reached for line in lines)


def code_patterns(
    module: torch.nn.Module,
    given: set[str],
    begun: Sequence[str] = ("forward",),
    reached: Lines | None = None,
) -> list[CodePattern]:
    """What methods of a module do that a graph cannot; `given` names their inputs, if known.

    `begun` are the methods that a call begins with, `reached` the lines that it runs. What does not
    run because of how the policy is set up is not read; what may run for other observations is.
    """
    found: dict[tuple[Kind, str, str], CodePattern] = {}
    done: set[str] = set()
    read_first: set[str] = set()
    waiting: list[tuple[str, set[str] | None]] = [(each, None) for each in begun]
    while waiting:
        name, tainted = waiting.pop(0)
        method = _method(type(module), name) if name not in done else None
        if method is None:
            continue
        done.add(name)
        method.read_first = read_first
        if reached is not None and any(map(replace(method, reached=reached).ran, method.tree.body)):
            method.reached = reached
        elif reached is not None and name in begun:
            continue  # a part that no call uses
        inputs = set(inputs_of(method.tree))
        if tainted is None and given & inputs:
            tainted = given & inputs
        method.taint.names |= inputs if tainted is None else tainted
        reader = _Reader(method)
        reader.read(method.tree.body)
        for sight in reader.found:
            found.setdefault((sight.kind, sight.where, sight.name), sight)
        waiting += reader.calls
    return list(found.values())


def _method(owner: type, name: str) -> _Method | None:
    function = inspect.unwrap(getattr(owner, name, None) or (lambda: None))
    code = getattr(function, "__code__", None)
    if code is None or not Path(code.co_filename).is_file():
        return None
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
    except (OSError, SyntaxError, TypeError):
        return None
    if not isinstance(tree, ast.FunctionDef) or not tree.args.args:
        return None
    _call_it_self(tree)
    file = Path(code.co_filename).name
    return _Method(owner, tree, lines, file, first, function.__globals__, Taint(set()), set())


def _call_it_self(tree: ast.FunctionDef) -> None:
    """The first argument under the one name that the rest of this file knows."""
    own = tree.args.args[0].arg
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == own:
            node.id = "self"


class _Reader(ast.NodeVisitor):
    """Walks a method in the order in which it runs."""

    def __init__(self, method: _Method) -> None:
        self.method = method
        self.found: list[CodePattern] = []
        self.calls: list[tuple[str, set[str] | None]] = []
        # Whether a value may have ended the method, or a loop, before what follows.
        self._may_have_left = False

    def _see(self, kind: Kind, node: ast.AST, name: str = "") -> None:
        self.found.append(CodePattern(kind, self.method.where(node), name))

    @property
    def taint(self) -> Taint:
        return self.method.taint

    def visit_If(self, node: ast.If) -> None:
        """A branch; what runs in training only is not read."""
        self.visit(node.test)
        by_value = self.taint.reaches(node.test)
        if by_value:
            self._see("branch", node)
            self._may_have_left |= any(isinstance(each, _LEAVING) for each in ast.walk(node))
        for side, never in (
            (node.body, _training_only(node.test)),
            (node.orelse, ast.unparse(node.test) == "not self.training"),
        ):
            if not never and (by_value or self._runs(node, side)):
                self.read(side)

    def visit_While(self, node: ast.While) -> None:
        if self.taint.reaches(node.test):
            self._see("branch", node)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        if self.taint.reaches(node.test):
            self._see("branch", node)
        if _training_only(node.test):
            self.visit(node.orelse)
        else:
            self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        if self.taint.reaches(node.test):
            self._see("branch", node)
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        self.taint.iterate(node.target, node.iter)
        self.read([*node.body, *node.orelse])

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self._write(target, node)
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                for each, value in zip(target.elts, node.value.elts, strict=False):
                    self.taint.assign(each, self.taint.reaches(value))
            else:
                self.taint.assign(target, self.taint.reaches(node.value))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
            self._write(node.target, node)
            self.taint.assign(node.target, self.taint.reaches(node.value))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        if name := _attribute(node.target):
            self.method.read_first.add(name)
        self._write(node.target, node)
        if self.taint.reaches(node.value):
            self.taint.assign(node.target, True)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """An attribute that is read before anything wrote it holds what an earlier call left."""
        if name := _attribute(node):
            self.method.read_first.add(name)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        compared = isinstance(node.slice, ast.Compare) and self.taint.reaches(node.slice)
        if compared and isinstance(node.ctx, ast.Load):
            self._see("shape", node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        function, path = called(node.func), dotted(node.func)
        root = path.partition(".")[0]
        on_value = isinstance(node.func, ast.Attribute) and self.taint.reaches(node.func.value)
        given = any(map(self.taint.reaches, node.args))
        if (function in _NUMBERS and on_value) or (path in _CASTS and given):
            self._see("number", node)
        elif (function == "numpy" and on_value) or (self._is_numpy(root) and given):
            self._see("numpy", node)
        elif self._draws(node, root, path):
            self._see("random", node)
        elif counts_values(function) and (on_value or given):
            self._see("shape", node)
        elif path.startswith("torch.ops.") and path.split(".")[2] not in _CORE_OPERATORS:
            self._see("operator", node, ".".join(path.split(".")[2:4]))
        elif function == "apply" and self._is_function(node.func):
            self._see("function", node, root)
        self._written_by_call(node)
        self._follow(node)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """A function inside a method is read where it is called, if at all."""

    def read(self, statements: list[ast.stmt]) -> None:
        """Reads a block, up to where every call leaves it."""
        for before, each in zip([None, *statements], statements, strict=False):
            if before is not None and not self._may_have_left and not self._runs(before, [each]):
                return
            self.visit(each)

    def _runs(self, before: ast.stmt, statements: list[ast.stmt]) -> bool:
        """Whether statements run where the one before them does; yes where nothing is known."""
        known = bool(self.method.reached) and self.method.ran(before)
        return not known or any(map(self.method.ran, statements))

    def _write(self, target: ast.expr, statement: ast.AST) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            for each in target.elts:
                self._write(each, statement)
            return
        name = _attribute(target)
        inside = isinstance(target, ast.Subscript)
        if name and (inside or name in self.method.read_first):
            self._see("state", statement, name)

    def _written_by_call(self, node: ast.Call) -> None:
        if not isinstance(node.func, ast.Attribute):
            return
        method, name = node.func.attr, _attribute(node.func.value)
        in_place = method.endswith("_") and not method.endswith("__")
        if name and (in_place or method in _WRITES):
            self._see("state", node, name)

    def _draws(self, node: ast.Call, root: str, path: str) -> bool:
        function = called(node.func)
        if not draws(function) and function not in ("sample", "rsample", "dropout"):
            return self._is_numpy(root) and ".random." in path
        if function == "dropout":
            training = [each.value for each in node.keywords if each.arg == "training"]
            always = [each for each in training if isinstance(each, ast.Constant) and each.value]
            return root != "self" and len(node.args) < 3 and (not training or bool(always))
        own = function in ("sample", "rsample") or function.endswith("_")
        return own or root in ("torch", "random") or self._is_numpy(root)

    def _is_numpy(self, name: str) -> bool:
        return getattr(self.method.space.get(name), "__name__", "") == "numpy"

    def _is_function(self, function: ast.expr) -> bool:
        found = self.method.space.get(dotted(function).partition(".")[0])
        return isinstance(found, type) and issubclass(found, torch.autograd.Function)

    def _follow(self, node: ast.Call) -> None:
        """Methods of the module's own are read as well, with what they are given."""
        match node.func:
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                own = inspect.getattr_static(self.method.owner, name, None)
                if inspect.isfunction(own) and not hasattr(torch.nn.Module, name):
                    self.calls.append((name, self._handed_over(own, node)))

    def _handed_over(self, function: Any, node: ast.Call) -> set[str]:
        names = [*inspect.signature(function).parameters][1:]
        by_place = {
            n for n, each in zip(names, node.args, strict=False) if self.taint.reaches(each)
        }
        by_name = {k.arg for k in node.keywords if k.arg and self.taint.reaches(k.value)}
        own = {name for name in self.taint.names if name.startswith("self.")}
        return by_place | by_name | own


def _training_only(test: ast.expr) -> bool:
    both = isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And)
    parts = test.values if isinstance(test, ast.BoolOp) and both else [test]
    return any(ast.unparse(each) == "self.training" for each in parts)


def _attribute(node: ast.expr) -> str:
    """`hidden` for `self.hidden` and for what is inside of it: `self.hidden[0]`."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.attr if node.value.id == "self" else ""
    return ""


def mentioned(module: torch.nn.Module, begun: Sequence[str] = ("forward",)) -> Iterator[str]:
    """The attributes of its own that methods of a module mention, in any way."""
    waiting, done = [*begun], set()
    while waiting:
        name = waiting.pop()
        method = _method(type(module), name) if name not in done else None
        done.add(name)
        if method is None:
            continue
        for node in ast.walk(method.tree):
            if isinstance(node, ast.Attribute) and (found := _attribute(node)):
                yield found
                waiting.append(found)
