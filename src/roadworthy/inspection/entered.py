"""Which functions of the author's a call enters, and what it asks the world outside."""

from __future__ import annotations

import gc
import os
import sys
import sysconfig
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch

from roadworthy.errors.lines import frame_line, is_authors
from roadworthy.inspection.asking import Question, question_in
from roadworthy.inspection.reach import (
    Reach,
    Slot,
    function_roots,
    is_written_here,
    names_in,
    root,
)

# What of the world Python's own library may be asked for, on the author's behalf.
_ASKED_THROUGH_PYTHON = ("time.", "datetime.", "os.", "random")
# Of the system, what answers by more than its arguments.
_SYSTEM_ANSWERS = (
    "stat", "lstat", "fstat", "listdir", "scandir", "read", "readlink", "access", "urandom",
    "getrandom", "times", "getloadavg", "getpid", "getcwd",
)  # fmt: skip
_READING_EVENTS = (
    "ctypes.dlopen", "ctypes.dlsym", "mmap.", "os.system", "shutil.", "socket.", "sqlite3.",
    "subprocess.", "urllib.",
)  # fmt: skip
_NESTED = ("<listcomp>", "<genexpr>", "<setcomp>", "<dictcomp>")
# Machinery of Python's that looks at clocks and files for its own ends.
_BOOKKEEPING = ("logging", "warnings.py", "linecache.py", "traceback.py", "tokenize.py")


@dataclass(slots=True, eq=False)
class Entered:
    """The author's functions that ran, in the order in which they were first entered.

    `on_entry` is told what each holds and says before its body runs.
    """

    on_entry: Callable[[Iterable[Slot], frozenset[str]], None]
    codes: set[types.CodeType] = field(default_factory=set)
    functions: list[types.FunctionType] = field(default_factory=list)
    _owners: dict[int, weakref.ref[object]] = field(default_factory=dict)
    questions: dict[Question, None] = field(default_factory=dict)

    @property
    def names(self) -> frozenset[str]:
        """Every name that the code says."""
        return frozenset().union(*(names_in(code) for code in self.codes))

    def roots(self) -> Iterator[Slot]:
        """What the functions hold, and the globals that they say."""
        for function in self.functions:
            yield from function_roots(function)

    def hidden(self, reached: Reach) -> list[Slot]:
        """The objects whose methods ran, that are still there, and that nothing reached holds."""
        owners = [owner for each in self._owners.values() if (owner := each()) is not None]
        return [
            root(f"a {type(owner).__qualname__}" + (f" {place}" if place else ""), owner)
            for place, owner in enumerate(each for each in owners if not reached.holds(each))
        ]

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
        # Called millions of times in a simulator. The hash of a code is that of all it says.
        code = frame.f_code
        if event == "call":
            if code is _ENVIRON:
                self._ask("os.environ", frame.f_back)
            elif id(code) in _ASKS_TORCH:
                if not _calls_scripts(frame.f_back):
                    self._ask(_ASKS_TORCH[id(code)], frame.f_back)
            elif is_authors_code(code):
                self._own(frame)
                if code not in self.codes:
                    self._enter(frame)
        elif event == "c_call":
            authors = is_authors_code(code)
            if authors or _is_pythons_file(code.co_filename):  # of a library nobody is told
                name = question_in(arg)
                if name and (authors or _is_asked_through_python(name)):
                    self._ask(name, frame)

    def _own(self, frame: types.FrameType) -> None:
        code = frame.f_code
        owner = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        if is_written_here(type(owner)):
            with suppress(TypeError):  # some with __slots__ cannot be followed weakly
                self._owners[id(owner)] = weakref.ref(owner)

    def _enter(self, frame: types.FrameType) -> None:
        code = frame.f_code
        self.codes.add(code)
        if code.co_name in _NESTED:  # what it says, the function around it says as well
            return
        for function in _functions_of(frame):
            self.functions.append(function)
            self.on_entry(function_roots(function), frozenset(names_in(code)))

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


def _is_asked_through_python(name: str) -> bool:
    """Whether a question is the author's, although Python's own library puts it."""
    module, _, asked = name.partition(".")
    return name.startswith(_ASKED_THROUGH_PYTHON) and (module != "os" or asked in _SYSTEM_ANSWERS)


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


# Questions that torch answers in Python. A policy that asks whether it is captured can be one then,
# and another one later.
_ASKS_TORCH = {
    id(asked.__code__): f"torch.{name}"
    for name, asked in (
        ("compiler.is_exporting", torch.compiler.is_exporting),
        ("compiler.is_compiling", torch.compiler.is_compiling),
        ("are_deterministic_algorithms_enabled", torch.are_deterministic_algorithms_enabled),
    )
}
_SCRIPTS = (torch.jit.ScriptFunction, torch.jit.ScriptModule)


def _calls_scripts(frame: types.FrameType | None) -> bool:
    """Whether a frame asks nothing of torch itself, and calls TorchScript, which does."""
    if frame is None or not is_authors_code(frame.f_code):
        return False
    names = set(frame.f_code.co_names)
    held = [*frame.f_locals.values(), *(frame.f_globals.get(name) for name in names)]
    owners = [each for each in held if isinstance(each, (types.ModuleType, torch.nn.Module))]
    held += [vars(owner).get(name) for owner in owners for name in names]
    asks = any(id(getattr(each, "__code__", None)) in _ASKS_TORCH for each in held)
    said = names & {asked.rpartition(".")[2] for asked in _ASKS_TORCH.values()}
    return not asks and not said and any(isinstance(each, _SCRIPTS) for each in held)


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
