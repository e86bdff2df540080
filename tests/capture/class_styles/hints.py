"""Hints followed as they stand: the keywords that are said in them are passed, until none is."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

import torch

import roadworthy as rw

KEYWORD = re.compile(r"\b(memory|method|constants|outputs|ignore)=")
# Where a hint says two ways on: to declare what persists, or to say that it does not matter.
Way = Literal["declare", "ignore"]
# These say what to write in the class first; the declaration is for afterwards.
IN_CODE = ("keep it in a tensor",)


def said(hint: str) -> dict[str, Any]:
    """The keywords that a hint says, as Python reads them; the first where one is said twice."""
    found: dict[str, Any] = {}
    for match in KEYWORD.finditer(hint):
        text = hint[match.end() :]
        for end in range(len(text), 0, -1):
            if text[:end].rstrip().endswith(","):
                continue  # it would make a tuple of what the sentence goes on behind
            try:
                found.setdefault(match[1], eval(text[:end], {"rw": rw, "torch": torch}))
                break
            except (SyntaxError, NameError):
                continue
    if hint.startswith(IN_CODE):
        found.pop("memory", None)
    return found


def chosen(words: dict[str, Any], way: Way) -> dict[str, Any]:
    """The keywords of one way."""
    if way == "ignore" and "ignore" in words:
        return {"ignore": words["ignore"]}
    if len(words) > 1:
        words.pop("ignore", None)
    return words


def joined(old: Any, new: Any) -> Any:
    """What was said before, and what is said now."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **new}
    if isinstance(old, list) and isinstance(new, list):
        return [*old, *new]
    return new


def followed(
    trial: Callable[[dict[str, Any]], object], keywords: dict[str, Any], way: Way = "declare"
) -> tuple[list[str], rw.Finding | None]:
    """The hints on the way, and the refusal at its end that says no keyword; None if none is left.

    It fails where a hint is given that was followed already.
    """
    tried: list[str] = []
    while True:
        try:
            trial(keywords)
            return tried, None
        except rw.RoadworthyError as error:
            refused = error.findings
        more: dict[str, Any] = {}
        for finding in refused:
            for key, value in chosen(said(finding.hint), way).items():
                more[key] = joined(more.get(key), value)
        if not more:
            return tried, refused[0]
        hint = refused[0].hint
        assert hint not in tried, f"it leads in a circle: {refused[0]}"
        tried.append(hint)
        keywords = keywords | {key: joined(keywords.get(key), each) for key, each in more.items()}
        constant = keywords.get("constants", {})
        keywords["example"] = {n: e for n, e in keywords["example"].items() if n not in constant}
