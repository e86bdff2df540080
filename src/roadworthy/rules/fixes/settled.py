"""Conditions that only values of the module decide, which no call changes: `if self.count > 0:`."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from functools import partial, reduce
from types import CodeType, FunctionType
from typing import Any

import torch

from roadworthy.capture.source import Attribute, Source
from roadworthy.errors import Finding
from roadworthy.errors.lines import place_of
from roadworthy.operators.asking import gives_no_values
from roadworthy.operators.table import known
from roadworthy.rules.fixes.copies import functions_at
from roadworthy.rules.fixes.rewrite import LeftAlone, conditions_at, definition_of

_PLAIN = (
    ast.BoolOp, ast.UnaryOp, ast.Compare, ast.BinOp, ast.Constant, ast.operator, ast.unaryop,
    ast.boolop, ast.cmpop, ast.expr_context,
)  # fmt: skip
_VALUES = (torch.Tensor, int, float, str, type(None))
_NOTHING = object()


def settled(
    source: Source, owner: torch.nn.Module, function: FunctionType, line: int
) -> tuple[str, bool] | None:
    """The condition at a line and what it says now, where nothing else can ever decide it."""
    try:
        definition = definition_of(function)
    except LeftAlone:
        return None
    conditions = conditions_at(definition, line)
    arguments = definition.args.args
    if len(conditions) != 1 or not arguments:
        return None
    (condition,) = conditions
    own = arguments[0].arg
    paths = _paths(condition, own)
    if not paths or not all(map(partial(_is_plain, owner), paths)):
        return None
    if any(_moves(source, owner, path) for path in paths):
        return None
    try:
        answer = eval(_compiled(condition), {own: owner})  # plain arithmetic of its attributes
        return ast.unparse(condition), bool(answer)
    except Exception:  # an attribute that is not there, a tensor of several elements
        return None


def with_offered_repair(source: Source, finding: Finding) -> Finding:
    """A branch that `fix=True` would settle, with these words in its hint."""
    place = place_of(finding.where)
    if finding.code != "RW103" or place is None or "fix=True" in finding.hint:
        return finding
    at = functions_at(source.module, finding.where)
    if not any(settled(source, owner, function, place[1]) for owner, _, function in at):
        return finding
    said = "; if it never changes on the robot, as it says now: rw.export(…, fix=True)"
    return dataclasses.replace(finding, hint=finding.hint + said)


def _compiled(condition: ast.expr) -> CodeType:
    return compile(ast.fix_missing_locations(ast.Expression(condition)), "<condition>", "eval")


def _paths(node: ast.expr, own: str) -> list[str] | None:
    """The attributes that a condition reads; None where it reads or does anything else."""
    found: list[str] = []
    pending: list[Any] = [node]
    while pending:
        each = pending.pop()
        if isinstance(each, ast.Call):
            if not isinstance(each.func, ast.Attribute) or each.args or each.keywords:
                return None
            if not _makes_one_element(each.func.attr):
                return None
            pending.append(each.func.value)
        elif isinstance(each, ast.Attribute):
            first, _, path = ast.unparse(each).partition(".")
            if first != own or not path.replace(".", "").replace("_", "").isalnum():
                return None
            found.append(path)
        elif isinstance(each, _PLAIN):
            pending.extend(ast.iter_child_nodes(each))
        else:
            return None
    return found


def _makes_one_element(method: str) -> bool:
    """Whether a method of a tensor, without arguments, makes one element of it, or gives a size."""
    return known(method).reduces or method in ("item", "bool") or gives_no_values(method)


def kept(owner: object, name: str) -> object:
    """What an object keeps under a name, without running any code of its author's."""
    if isinstance(owner, torch.nn.Module):
        for place in (owner._parameters, owner._buffers, owner._modules):
            if name in place:
                return place[name]
    return inspect.getattr_static(owner, name, _NOTHING)


def _is_plain(owner: object, path: str) -> bool:
    """Whether an attribute is a number or a tensor that is kept."""
    return isinstance(reduce(kept, path.split("."), owner), _VALUES)


def _moves(source: Source, owner: torch.nn.Module, path: str) -> bool:
    """Whether an attribute is memory, or was said to change."""
    names = [name for name, each in source.module.named_modules() if each is owner]
    memory = [each.path for each in source.memory.values() if isinstance(each, Attribute)]
    for name in names:
        whole = f"{name}.{path}" if name else path
        if any(f"{whole}.".startswith(f"{each}.") for each in [*memory, *source.ignore]):
            return True
    return False
