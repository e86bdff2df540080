"""Which functions of the author's a call enters, and what it asks the world outside."""

from __future__ import annotations

import gc
import os
import random
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch

from roadworthy.capture.state.reach import Slot, function_roots, names_in
from roadworthy.lines import frame_line, is_authors

# Builtins that answer differently at another moment, by the module that holds them.
_CLOCKS = ("time", "datetime")
_NOT_ASKED = ("sleep", "mktime", "strptime", "isoformat", "timestamp", "replace")
_SYSTEM = ("posix", "nt")
_ANSWERS = (
    "stat", "lstat", "fstat", "listdir", "scandir", "read", "readlink", "access", "urandom",
    "getrandom", "times", "getloadavg", "getpid", "getcwd",
)  # fmt: skip
_READING_EVENTS = ("socket.", "subprocess.", "os.system", "urllib.", "sqlite3.", "mmap.", "shutil.")
_NESTED = ("<listcomp>", "<genexpr>", "<setcomp>", "<dictcomp>")
# Machinery of Python's that looks at clocks and files for its own ends.
_BOOKKEEPING = ("logging", "warnings.py", "linecache.py", "traceback.py", "tokenize.py")


@dataclass(frozen=True, slots=True)
class Question:
    """Something that a call asks the world: what it is called, and the line that asks."""

    name: str
    line: str


@dataclass(slots=True, eq=False)
class Entered:
    """The author's functions that ran, in the order in which they were first entered.

    `on_entry` is told of each before its body runs.
    """

    on_entry: Callable[[types.FunctionType], None]
    codes: set[types.CodeType] = field(default_factory=set)
    functions: list[types.FunctionType] = field(default_factory=list)
    questions: dict[Question, None] = field(default_factory=dict)

    @property
    def names(self) -> frozenset[str]:
        """Every name that the code says."""
        return frozenset().union(*(names_in(code) for code in self.codes))

    def roots(self) -> Iterator[Slot]:
        """What the functions hold, and the globals that they say."""
        for function in self.functions:
            yield from function_roots(function)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Notes what runs, and what is asked, until the block ends."""
        before = sys.getprofile()
        _hook_once()
        _listening.append(self)
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            _set_back(before)
            _listening.remove(self)

    def _profile(self, frame: types.FrameType, event: str, arg: Any) -> None:
        if event == "call":
            code = frame.f_code
            if code is _ENVIRON:
                self._ask("os.environ", frame.f_back)
            elif code in _ASKS_FOR_CAPTURE:
                self._ask(f"torch.compiler.{code.co_name}", frame.f_back)
            elif code not in self.codes and is_authors_code(code):
                self._enter(frame)
        elif event == "c_call":
            name = _asked(arg)
            if name:
                self._ask(name, frame)

    def _enter(self, frame: types.FrameType) -> None:
        code = frame.f_code
        self.codes.add(code)
        if code.co_name in _NESTED:  # what it says, the function around it says as well
            return
        for function in _functions_of(frame):
            self.functions.append(function)
            self.on_entry(function)

    def _ask(self, name: str, frame: types.FrameType | None) -> None:
        line = _asking_line(frame)
        if line:
            self.questions[Question(name, line)] = None


def _set_back(profiler: Any) -> None:
    """Gives the interpreter back to whoever profiled it."""
    sys.setprofile(profiler if callable(profiler) else None)
    if profiler is not None and not callable(profiler):  # cProfile, which is no function
        profiler.enable()


def _functions_of(frame: types.FrameType) -> list[types.FunctionType]:
    """The functions that have the code of a frame: a method, a global, or whatever holds it."""
    code = frame.f_code
    candidates = [frame.f_globals.get(code.co_name)]
    if code.co_argcount:
        owner = type(frame.f_locals.get(code.co_varnames[0]))
        candidates += [vars(kind).get(code.co_name) for kind in owner.__mro__]
    for each in candidates:
        function = _unwrapped(each)
        if isinstance(function, types.FunctionType) and function.__code__ is code:
            return [function]
    return [
        each
        for each in gc.get_referrers(code)
        if isinstance(each, types.FunctionType) and each.__code__ is code
    ]


def _unwrapped(value: Any) -> Any:
    if isinstance(value, property):
        value = value.fget
    value = getattr(value, "__func__", value)
    while hasattr(value, "__wrapped__"):
        value = value.__wrapped__
    return value


@cache
def is_authors_code(code: types.CodeType) -> bool:
    """Whether a code stands in a file of the author's."""
    return _is_authors_file(code.co_filename)


@cache
def _is_authors_file(name: str) -> bool:
    if name.startswith("<frozen"):
        return False
    return is_authors(Path(name) if name.startswith("<") else Path(name).resolve())


@cache
def _is_pythons_file(name: str) -> bool:
    inside = Path(sysconfig.get_path("stdlib")) in Path(name).resolve().parents
    return (inside and "site-packages" not in name) or name.startswith("<frozen")


def _asked(function: Any) -> str:
    """The name of a builtin that asks the world, or nothing."""
    name = getattr(function, "__name__", "")
    owner = getattr(function, "__self__", None)
    if isinstance(owner, type):
        clock = owner.__module__ == "datetime" and name in ("now", "utcnow", "today")
        return f"{owner.__module__}.{name}" if clock else ""
    if isinstance(owner, random.Random):
        return "random" if owner is _GLOBAL else ""
    module = getattr(function, "__module__", None)
    if module == "time" and name not in _NOT_ASKED:
        return f"time.{name}"
    if module in _SYSTEM and name in _ANSWERS:
        return f"os.{name}"
    return ""


def _asking_line(frame: types.FrameType | None) -> str:
    """The author's line that asks, straight or through Python's own library; or nothing."""
    while frame is not None:
        name = frame.f_code.co_filename
        if is_authors_code(frame.f_code):
            return frame_line(frame)
        if not _is_pythons_file(name) or any(each in name for each in _BOOKKEEPING):
            return ""
        frame = frame.f_back
    return ""


_GLOBAL = random._inst
# A policy that asks whether it is captured can be one policy then, and another one later.
_ASKS_FOR_CAPTURE = {
    each.__code__ for each in (torch.compiler.is_exporting, torch.compiler.is_compiling)
}
_ENVIRON = type(os.environ).__getitem__.__code__
_listening: list[Entered] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _listening:
        return
    reading = event.startswith(_READING_EVENTS)
    if event == "open":
        mode = arguments[1]
        reading = mode is None or "r" in str(mode) or "+" in str(mode)
    if reading:
        frame = sys._getframe(1)
        for each in _listening:
            each._ask("open" if event == "open" else event, frame)


@cache
def _hook_once() -> None:
    """Adds an audit hook, which Python never removes: it does nothing unless someone listens."""
    sys.addaudithook(_audit)
