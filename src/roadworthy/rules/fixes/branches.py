"""Branches on tensors: flags that never change become bools, other branches become choices."""

from __future__ import annotations

import re
from typing import Any

import torch

from roadworthy.errors import Finding
from roadworthy.errors.lines import code_of, place_of
from roadworthy.rules.fixes.choice import Choice
from roadworthy.rules.fixes.copies import ModuleCopies, functions_at
from roadworthy.rules.fixes.rewrite import LeftAlone
from roadworthy.rules.fixes.settled import kept, settled

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
        flag = kept(owner, name)  # a property cannot be set
        if isinstance(flag, torch.Tensor) and flag.numel() == 1:
            found[id(owner)] = owner, bool(flag)
    for owner, flag in found.values():
        delattr(owner, name)
        setattr(owner, name, flag)
    for flag in dict.fromkeys(value for _, value in found.values()):
        copies.note(finding.where, f"self.{parents}{name} was taken as {flag}, which it is now")
    return bool(found)


def settled_conditions(copies: ModuleCopies, finding: Finding) -> bool:
    """A condition that only the module's own values decide, taken as what it says now."""
    place = place_of(finding.where)
    if finding.code != "RW103" or place is None:
        return False
    said: dict[str, None] = {}
    for owner, name, function in [*functions_at(copies.repaired.module, finding.where)]:
        answer = settled(copies.repaired, owner, function, place[1])
        known = copies.settled.setdefault((owner, function), {})
        if answer is None or place[1] in known:
            continue
        known[place[1]] = answer[1]
        try:
            copies.rewrite(owner, name, function)
        except LeftAlone:
            del known[place[1]]
            continue
        said[f"{answer[0]} was taken as {answer[1]}, which it is now"] = None
    for what in said:
        copies.note(finding.where, what)
    return bool(said)


def choices(copies: ModuleCopies, finding: Finding) -> bool:
    """`if c: x = a` with both sides computed, and one of them chosen by `torch.where`."""
    place = place_of(finding.where)
    if finding.code != "RW103" or place is None:
        return False
    _, line = place
    found = [*functions_at(copies.repaired.module, finding.where)]
    wanted = {function: copies.rewritten.setdefault(function, {}) for _, _, function in found}
    if any(line in lines for lines in wanted.values()):
        return False  # it was rewritten, and fails still
    choice = Choice(finding.where)
    for lines in wanted.values():
        lines[line] = choice
    try:
        for owner, name, function in found:
            copies.rewrite(owner, name, function)
    except LeftAlone as why:
        copies.left_alone[finding.where] = str(why)
        for lines in wanted.values():
            del lines[line]
        return False
    if found:
        copies.note(finding.where, "both sides of the branch are computed, torch.where chooses")
    else:
        copies.left_alone[finding.where] = "the line is in no method of a module"
    return bool(found)
