"""Branches that only move tensors: `if x.is_cuda: zeros = zeros.cuda()` computes the same anywhere.

Both sides of such a branch are read without their moves. Where they then say the same, the answer
does not matter; whatever else differs between them, code that cannot be read included, does.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import textwrap
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType

from roadworthy.operators.asking import takes_device

# Kinds of device that are told apart; "mps" and the like mean something that is wrong there.
KINDS = frozenset({"cuda", "cpu"})
# What is done for the clock or the allocator of a GPU alone.
_HOUSEKEEPING = ("torch.cuda.synchronize()", "torch.cuda.empty_cache()")


def only_moves(code: CodeType, line: int) -> bool:
    """Whether every branch on the `is_cuda` that is asked for at a line only moves tensors."""
    function = _read(code)
    return function is not None and function.is_idle(
        [
            each
            for each in ast.walk(function.tree)
            if isinstance(each, ast.Attribute)
            and each.attr == "is_cuda"
            and each.lineno <= line <= (each.end_lineno or line)
        ]
    )


def compares_idly(code: CodeType) -> bool:
    """Whether every branch on the kind of a device, in a whole function, only moves tensors."""
    function = _read(code)
    return function is not None and function.is_idle(
        [each for each in ast.walk(function.tree) if _compares_kind(each)]
    )


@functools.cache
def _read(code: CodeType) -> _Function | None:
    """A function with the lines of its file; None where there is no text that can be read."""
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    # Made by exec, or a lambda amid a call; Python 3.10 cannot even split some into words.
    except (OSError, TypeError, ValueError, SyntaxError, tokenize.TokenError):
        return None
    if any(isinstance(each, (ast.Global, ast.Nonlocal)) for each in ast.walk(tree)):
        return None  # who reads such a name is not to be seen here
    return _Function(ast.increment_lineno(tree, max(first, 1) - 1))


def _compares_kind(node: ast.AST) -> bool:
    """`x.device.type == "cuda"`."""
    if not isinstance(node, ast.Compare) or not isinstance(node.left, ast.Attribute):
        return False
    words = {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}
    return node.left.attr == "type" and not KINDS.isdisjoint(words)


@dataclass(frozen=True)
class _Function:
    tree: ast.AST

    def is_idle(self, questions: Sequence[ast.AST]) -> bool:
        """Whether there are questions, and no answer changes what is computed."""
        return bool(questions) and all(
            self._branch_is_idle(each) for asked in questions for each in self._answers(asked)
        )

    def _answers(self, asked: ast.AST) -> list[ast.AST]:
        """Where an answer is read: at the question, or under the name that it is kept by."""
        for each in ast.walk(self.tree):
            if isinstance(each, ast.NamedExpr) and each.value is asked:
                return [asked, *self._reads(each.target.id)]
        name = self._name_of(asked)
        return [asked] if name is None else [*self._reads(name)]

    def _name_of(self, value: ast.AST) -> str | None:
        for each in ast.walk(self.tree):
            if isinstance(each, ast.Assign) and each.value is value and len(each.targets) == 1:
                target = each.targets[0]
                return target.id if isinstance(target, ast.Name) else None
        return None

    def _reads(self, name: str) -> Iterator[ast.Name]:
        for each in ast.walk(self.tree):
            if isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Load):
                yield each

    def _branch_is_idle(self, asked: ast.AST) -> bool:
        for node in ast.walk(self.tree):
            if not isinstance(node, (ast.If, ast.IfExp)):
                continue
            if not any(each is asked for each in ast.walk(node.test)):
                continue
            if isinstance(node, ast.If):
                one, other = self._sides(node)
                return self._said(one) == self._said(other)
            if _is_device(node.body) and _is_device(node.orelse):
                return self._chooses_device(node)
            return _unmoved(node.body) == _unmoved(node.orelse)
        return False

    def _sides(self, node: ast.If) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """What follows from a yes, and from a no: up to the end, where the one returns."""
        if node.orelse or not isinstance(node.body[-1], ast.Return):
            return node.body, node.orelse
        for parent in ast.walk(self.tree):
            for _, block in ast.iter_fields(parent):
                if isinstance(block, list) and node in block:
                    return node.body, block[block.index(node) + 1 :]
        return node.body, []

    def _said(self, block: Sequence[ast.stmt]) -> list[str]:
        return [text for each in block if (text := self._line(each))]

    def _line(self, statement: ast.stmt) -> str:
        """A statement without its moves; nothing where no more than `x = x` is left of it."""
        text = _unmoved(statement)
        if isinstance(statement, ast.Pass) or text in _HOUSEKEEPING:
            return ""
        if isinstance(statement, ast.If) and not self._said([*statement.body, *statement.orelse]):
            return text if any(map(_calls, ast.walk(statement.test))) else ""
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            (target,) = statement.targets
            if _is_device(statement.value) and self._names_device(target):
                return ""
            return "" if _unmoved(target) == _unmoved(statement.value) else text
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            # `self.net.cuda()` moves a module where it is.
            moved = _Unmoved().visit(copy.deepcopy(statement.value))
            return "" if isinstance(moved, (ast.Name, ast.Attribute)) else text
        return text

    def _chooses_device(self, chosen: ast.expr) -> bool:
        name = self._name_of(chosen)
        if name is None:
            return self._is_place_of_device(chosen)
        return self._names_device(ast.Name(name))

    def _names_device(self, target: ast.expr) -> bool:
        """Whether a name is read only where a device belongs: its value is nothing but that."""
        if not isinstance(target, ast.Name):
            return False
        return all(self._is_place_of_device(each) for each in self._reads(target.id))

    def _is_place_of_device(self, value: ast.expr) -> bool:
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.Call):
                continue
            if any(each.arg == "device" and each.value is value for each in node.keywords):
                return _only_places(node)
            if any(each is value for each in node.args):
                called = node.func
                if not isinstance(called, ast.Attribute):
                    return False
                return called.attr in ("to", "cuda") or ast.unparse(called) == "torch.device"
        return False


def _only_places(call: ast.Call) -> bool:
    """Whether a call does no more with a device than to make a tensor there.

    A function of the author's may do anything.
    """
    if not isinstance(call.func, ast.Attribute):
        return False
    return takes_device(call.func.attr) or ast.unparse(call.func.value) == "torch"


def _is_device(value: ast.expr) -> bool:
    """`"cuda:0"`, `torch.device("cuda")`, `x.device`, `self.device`."""
    if isinstance(value, ast.Constant):
        return isinstance(value.value, str) and value.value.partition(":")[0] in KINDS
    if isinstance(value, ast.Call):
        return ast.unparse(value.func) == "torch.device"
    return isinstance(value, ast.Attribute) and value.attr == "device"


def _calls(node: ast.AST) -> bool:
    """Whether asking may do something: a function of the author's may."""
    return isinstance(node, (ast.Call, ast.NamedExpr))


def _unmoved(node: ast.AST) -> str:
    return ast.unparse(_Unmoved().visit(copy.deepcopy(node)))


class _Unmoved(ast.NodeTransformer):
    """Code as it would be written for one device."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if _only_places(node):
            node.keywords = [each for each in node.keywords if each.arg != "device"]
        called = node.func
        if not isinstance(called, ast.Attribute):
            return node
        plain = all(each.arg == "non_blocking" for each in node.keywords)
        if called.attr in KINDS and plain and ast.unparse(called.value) != "torch":
            return called.value
        if called.attr == "to" and plain and all(map(_is_device_or_name, node.args)):
            return called.value
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """`torch.cuda.FloatTensor` as `torch.FloatTensor`."""
        if node.attr.endswith("Tensor") and ast.unparse(node.value) == "torch.cuda":
            node.value = ast.Name("torch", ast.Load())
            return node
        return self.generic_visit(node)

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        """`[h for h in hidden]` as `hidden`: what is left of a list that was moved."""
        self.generic_visit(node)
        (first, *more) = node.generators
        if more or first.ifs or ast.unparse(first.target) != ast.unparse(node.elt):
            return node
        return first.iter


def _is_device_or_name(value: ast.expr) -> bool:
    return _is_device(value) or (isinstance(value, ast.Name) and value.id == "device")
