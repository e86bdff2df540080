"""The files of a policy under a name of its own, so that several can be in one program."""

from __future__ import annotations

import re
from collections.abc import Mapping

from roadworthy.errors import UsageError

USUAL = "policy"
_NAME = re.compile(r"[a-z][a-z0-9_]*")
# Headers of C and targets of CMake; `rw_step` is the policy's own, and so is selftest.c.
_TAKEN = {
    "assert", "complex", "ctype", "errno", "fenv", "float", "inttypes", "iso646", "limits",
    "locale", "math", "setjmp", "signal", "stdalign", "stdarg", "stdatomic", "stdbool", "stddef",
    "stdint", "stdio", "stdlib", "stdnoreturn", "string", "tgmath", "threads", "time", "uchar",
    "wchar",
    "wctype", "memory", "new", "version", "unistd", "pthread", "sched", "features", "alloca",
    "endian", "dl", "m", "rt", "debug", "optimized", "general",
    "all", "clean", "depend", "edit_cache", "help", "install", "package", "rebuild_cache", "test",
    "rw", "selftest",
    # Files that Windows keeps for itself.
    "aux", "con", "nul", "prn", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10)),
}  # fmt: skip
# What the header declares.
_DECLARED = re.compile(
    r"\bpolicy_(?=(?:state|inputs|outputs|work|work_size|init(?:_[0-9a-f]{8})?|reset|step|run)\b)"
)
_MACRO = re.compile(r"\bPOLICY_(?=\w)")
_FILE = re.compile(r"\bpolicy(?=\.[ch]\b)")
# The targets of CMake, of which a project has one of each name.
_BUILT = re.compile(r"(?<=\()policy\b|\bpolicy(?=\))")
_TESTED = re.compile(r"\bselftest\b(?!\.c)")


def is_declared(name: str) -> bool:
    """Whether the header has this name already, and another under another beginning of names."""
    return _DECLARED.match(name) is not None


def named(texts: Mapping[str, str], name: str) -> dict[str, str]:
    """`walker_step` for `policy_step`, `WALKER_ROWS` for `POLICY_ROWS`, walker.c for policy.c."""
    if (
        not isinstance(name, str)
        or not _NAME.fullmatch(name)
        or name.startswith("rw_")
        or name in _TAKEN
    ):
        raise UsageError(
            f"{name!r} cannot be the beginning of names in C, and the name of its files",
            where="name",
            hint="small letters, digits and underscores, beginning with a letter, and no name "
            "that C or CMake has: 'walker'",
        )
    if name == USUAL:
        return dict(texts)
    made = {_FILE.sub(name, file): _renamed(text, name) for file, text in texts.items()}
    built = _BUILT.sub(name, made["CMakeLists.txt"])
    made["CMakeLists.txt"] = _TESTED.sub(f"{name}_selftest", built)
    return made


def _renamed(text: str, name: str) -> str:
    return _FILE.sub(name, _MACRO.sub(f"{name.upper()}_", _DECLARED.sub(f"{name}_", text)))
