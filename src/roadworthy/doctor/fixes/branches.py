"""Branches on tensors: flags that never change become bools, other branches become choices."""

from __future__ import annotations

import re
from types import MethodType
from typing import Any

import torch

from roadworthy.doctor.fixes.choice import Choice
from roadworthy.doctor.fixes.copies import ModuleCopies, functions_at
from roadworthy.doctor.fixes.rewrite import rewritten
from roadworthy.errors import Finding
from roadworthy.lines import code_of, place_of

_FLAG = re.compile(
    r"^(?:if|elif|while) (?:not )?self\.((?:\w+\.)*)(\w+):|^.* if self\.()(\w+) else"
)


def python_flags(copies: ModuleCopies, finding: Finding) -> bool:
    """A tensor of one element that decides a branch, held as the Python bool that it is."""
    match = _FLAG.search(code_of(finding.where))
    if finding.code != "RW103" or match is None:
        return False
    parents, name = match[1] or match[3] or "", match[2] or match[4]
    found: dict[int, tuple[Any, bool]] = {}
    for module, _, _ in functions_at(copies.repaired.module, finding.where):
        owner: Any = module
        for parent in filter(None, parents.split(".")):
            owner = getattr(owner, parent, None)
        flag = getattr(owner, name, None)
        if isinstance(flag, torch.Tensor) and flag.numel() == 1:
            found[id(owner)] = owner, bool(flag)
    for owner, flag in found.values():
        delattr(owner, name)
        setattr(owner, name, flag)
    for flag in dict.fromkeys(value for _, value in found.values()):
        copies.note(finding.where, f"self.{parents}{name} was taken as {flag}, which it is now")
    return bool(found)


def choices(copies: ModuleCopies, finding: Finding) -> bool:
    """`if c: x = a` with both sides computed, and one of them chosen by `torch.where`."""
    place = place_of(finding.where)
    if finding.code != "RW103" or place is None:
        return False
    _, line = place
    done = False
    for owner, name, function in [*functions_at(copies.repaired.module, finding.where)]:
        wanted = copies.rewritten.setdefault(function, {})
        if line in wanted and not done:
            return False  # it was rewritten, and fails still
        wanted.setdefault(line, Choice(finding.where))
        made = rewritten(function, wanted)
        if made is None:
            del wanted[line]
            return False
        vars(owner)[name] = MethodType(made, owner)
        done = True
    if done:
        copies.note(finding.where, "both sides of the branch are computed, torch.where chooses")
    return done
