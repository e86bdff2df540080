"""The C that policies share, function by function; each policy takes along what it calls."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources

_NAME = re.compile(r"\brw_\w+")
_HEAD = re.compile(r"^(?:static[^(]*?\b(rw_\w+)\()", re.M)


@cache
def text(file: str) -> str:
    """A file beside this one."""
    return resources.files(__name__).joinpath(file).read_text(encoding="utf-8")


@cache
def functions(file: str) -> Mapping[str, str]:
    """Name → text of every function in a file beside this one, in its order."""
    found: dict[str, str] = {}
    for block in text(file).split("\n}\n"):
        head = _HEAD.search(block)
        if head:
            lines = block[: head.start()].rstrip().rpartition("\n\n")[2]
            comment = f"{lines}\n" if lines.startswith("/*") and "*/" in lines else ""
            body = block[head.start() :].replace("static inline", "RW_INLINE", 1)
            found[head[1]] = f"{comment}{body}\n}}"
    return found


def filled(template: str, **words: str) -> str:
    """A function with the words in capitals that it leaves open."""
    for word, own in words.items():
        template = template.replace(word, own)
    return template


def called(text: str, known: Mapping[str, str]) -> list[str]:
    """The functions that a text calls, and those that they call, in the order of definition."""
    wanted: set[str] = set()
    front = set(_NAME.findall(text))
    while front:
        new = {name for name in front if name in known} - wanted
        wanted |= new
        front = {name for each in new for name in _NAME.findall(known[each])}
    return [known[name] for name in known if name in wanted]
