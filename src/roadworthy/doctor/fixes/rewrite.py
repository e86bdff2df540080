"""A function of the author's with some of its branches turned into choices, in memory only."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from types import FunctionType

from roadworthy.doctor.fixes.choice import Choice

_NAME = "_roadworthy_choice_{}"
_NOT_PURE = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)


def rewritten(function: FunctionType, choices: Mapping[int, Choice]) -> FunctionType | None:
    """The function with the `if` at each line of `choices` made one; None where that is not safe.

    Safe are branches of one assignment to a plain name, or of one `return`, on both sides.
    """
    if function.__closure__ or hasattr(function, "__wrapped__"):
        return None
    lines, first = inspect.getsourcelines(function)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    ast.increment_lineno(tree, first - 1)
    (definition,) = tree.body
    if not isinstance(definition, ast.FunctionDef) or definition.decorator_list:
        return None
    if any(isinstance(node, (ast.Global, ast.Nonlocal)) for node in ast.walk(definition)):
        return None
    rewriter = _Rewriter({*choices})
    definition.body = rewriter.block(definition.body)
    rewriter.visit(definition)
    if rewriter.pending:
        return None
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

    def __init__(self, wanted: set[int]) -> None:
        self.pending = wanted

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
        if node.lineno not in self.pending:
            return node
        self.pending.discard(node.lineno)
        return ast.copy_location(self._choice(node, node.body, node.orelse), node)

    def _assigned(self, node: ast.If, name: str, yes: ast.expr, no: ast.expr) -> ast.stmt:
        target = ast.Name(id=name, ctx=ast.Store())
        return ast.Assign(targets=[target], value=self._choice(node, yes, no))

    def _choice(self, node: ast.If | ast.IfExp, yes: ast.expr, no: ast.expr) -> ast.expr:
        condition = node.test
        while isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
            condition, yes, no = condition.operand, no, yes
        function = ast.Name(id=_NAME.format(node.lineno), ctx=ast.Load())
        return ast.Call(func=function, args=[condition, yes, no], keywords=[])
