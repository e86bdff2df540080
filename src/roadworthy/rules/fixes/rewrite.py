"""A function of the author's with some of its branches turned into choices, in memory only."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from types import FunctionType

from roadworthy.rules.fixes.choice import Choice

_NAME = "_roadworthy_choice_{}"
_NOT_PURE = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)


class LeftAlone(Exception):
    """Why a branch is not rewritten."""


def definition_of(function: FunctionType) -> ast.FunctionDef:
    """The author's text of a function that can be made anew, with the lines of its file."""
    if function.__closure__:
        raise LeftAlone("the function uses variables of one around it")
    if hasattr(function, "__wrapped__"):
        raise LeftAlone("the function is wrapped by a decorator")
    try:
        lines, first = inspect.getsourcelines(function)
        (definition,) = ast.parse(textwrap.dedent("".join(lines))).body
    except (OSError, SyntaxError, ValueError):
        raise LeftAlone("its source cannot be read") from None
    ast.increment_lineno(definition, first - 1)
    if not isinstance(definition, ast.FunctionDef) or definition.decorator_list:
        raise LeftAlone("the function has a decorator")
    if any(isinstance(node, (ast.Global, ast.Nonlocal)) for node in ast.walk(definition)):
        raise LeftAlone("the function assigns to globals")
    return definition


def conditions_at(definition: ast.FunctionDef, line: int) -> list[ast.expr]:
    """What decides the branches at a line; a `while` asks more than once."""
    return [
        node.test
        for node in ast.walk(definition)
        if isinstance(node, (ast.If, ast.IfExp))
        and node.test.lineno <= line <= (node.test.end_lineno or node.test.lineno)
    ]


def rewritten(
    function: FunctionType, choices: Mapping[int, Choice], settled: Mapping[int, bool]
) -> FunctionType:
    """The function with the `if` at each line of `choices` made one; `LeftAlone` where it is not
    safe.

    Safe are branches of one assignment to a plain name, or of one `return`, on both sides. A
    condition that is settled may decide anything.
    """
    definition = definition_of(function)
    rewriter = _Rewriter({*choices}, settled)
    definition.body = rewriter.block(definition.body)
    rewriter.visit(definition)
    for line in rewriter.pending:
        raise LeftAlone(_why(definition, line))
    tree = ast.Module(body=[definition], type_ignores=[])
    ast.fix_missing_locations(tree)
    scratch: dict[str, FunctionType] = {}
    exec(compile(tree, function.__code__.co_filename, "exec"), scratch)
    names = {_NAME.format(line): choice for line, choice in choices.items()}
    made = FunctionType(
        scratch[definition.name].__code__,
        {**function.__globals__, **names},
        function.__name__,
        function.__defaults__,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


class _Rewriter(ast.NodeTransformer):
    """Replaces the branches whose condition stands at the wanted lines."""

    def __init__(self, wanted: set[int], settled: Mapping[int, bool]) -> None:
        self.pending, self.settled = wanted, settled

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Statements with `if c: return a`, `return b` at their end made one `return`."""
        match statements:
            case [*before, ast.If(body=[ast.Return()], orelse=[]) as branch, ast.Return() as last]:
                if branch.lineno in self.pending:
                    branch.orelse = [last]
                    return [*before, branch]
        return statements

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        node.body, node.orelse = self.block(node.body), self.block(node.orelse)
        self._settle(node)
        if node.lineno not in self.pending:
            return node
        match node.body, node.orelse:
            case [ast.Return(value=ast.expr() as yes)], [ast.Return(value=ast.expr() as no)]:
                chosen: ast.stmt = ast.Return(value=self._choice(node, yes, no))
            case [ast.Assign(targets=[ast.Name(id=name)], value=yes)], []:
                chosen = self._assigned(node, name, yes, ast.Name(id=name, ctx=ast.Load()))
            case (
                [ast.Assign(targets=[ast.Name(id=name)], value=yes)],
                [ast.Assign(targets=[ast.Name(id=other)], value=no)],
            ) if name == other:
                chosen = self._assigned(node, name, yes, no)
            case _:
                return node
        if any(isinstance(each, _NOT_PURE) for each in ast.walk(node)):
            return node
        self.pending.discard(node.lineno)
        return ast.copy_location(chosen, node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        self._settle(node)
        if node.lineno not in self.pending:
            return node
        self.pending.discard(node.lineno)
        return ast.copy_location(self._choice(node, node.body, node.orelse), node)

    def _settle(self, node: ast.If | ast.IfExp) -> None:
        """Changes the node: its condition is the answer, where that is known."""
        test = node.test
        for line, answer in self.settled.items():
            if test.lineno <= line <= (test.end_lineno or test.lineno):
                node.test = ast.copy_location(ast.Constant(answer), test)

    def _assigned(self, node: ast.If, name: str, yes: ast.expr, no: ast.expr) -> ast.stmt:
        target = ast.Name(id=name, ctx=ast.Store())
        return ast.Assign(targets=[target], value=self._choice(node, yes, no))

    def _choice(self, node: ast.If | ast.IfExp, yes: ast.expr, no: ast.expr) -> ast.expr:
        condition = node.test
        while isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
            condition, yes, no = condition.operand, no, yes
        function = ast.Name(id=_NAME.format(node.lineno), ctx=ast.Load())
        return ast.Call(func=function, args=[condition, yes, no], keywords=[])


def _why(definition: ast.FunctionDef, line: int) -> str:
    """What stands in the way at a line, in words."""
    branch = next(
        (node for node in ast.walk(definition) if isinstance(node, ast.If) and node.lineno == line),
        None,
    )
    if branch is None:
        return "the line is no `if`, and no `a if c else b` that begins on it"
    sides = [branch.body, branch.orelse]
    if any(isinstance(each, _NOT_PURE) for each in ast.walk(branch)):
        return "it assigns inside of an expression"
    if len(branch.orelse) == 1 and isinstance(branch.orelse[0], ast.If):
        return "it has an elif, or an if inside of its else"
    if any(len(side) > 1 for side in sides):
        return "a side has more than one statement"
    if any(isinstance(each, ast.Return) for side in sides for each in side):
        return "it returns early, and the way on is more than one return"
    if any(isinstance(each, (ast.AugAssign, ast.Expr)) for side in sides for each in side):
        return "a side changes something in place"
    targets = {ast.unparse(t) for side in sides for a in side for t in getattr(a, "targets", ())}
    if all(isinstance(each, ast.Assign) for side in sides for each in side) and len(targets) > 1:
        return "its sides assign to different names"
    return "a side does something else than to assign to one plain name"
