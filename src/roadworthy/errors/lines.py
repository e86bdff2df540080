"""Where something happened, as its author would look it up: `policy.py:12 (the code)`."""

from __future__ import annotations

import importlib.util
import inspect
import linecache
import re
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

_OWN = Path(__file__).resolve().parent.parent
# What Python and this package are made of: nobody's own object.
MACHINERY = ("builtins", "types", "importlib", "_frozen_importlib", "roadworthy")
# Packages whose code is not the author's to change, whatever they install.
LIBRARIES = (
    "torch", "tensordict", "torchrl", "numpy", "onnx", "onnx_ir", "onnxscript", "onnxruntime",
    "gymnasium", "mjlab", "mujoco", "mujoco_warp", "warp",
)  # fmt: skip
_PLACE = re.compile(r"([^:]+):(\d+) \((.*)\)")
_QUOTED = re.compile(r'File "([^"]+)", line (\d+), in [^\n]+\n\s+([^\n]+)')


def user_line(error: BaseException) -> str:
    """The deepest line of the traceback that its author can change; empty where there is none."""
    return _deepest(traceback.extract_tb(error.__traceback__))


def culprit(error: BaseException) -> tuple[str, bool]:
    """Where an error came from, whatever library raised it below; and whether that is the user's.

    Ours is named from the root of the package, `inspection/snapshot.py:197 (the code)`.
    """
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        place = Path(frame.filename).resolve()
        if _OWN in place.parents:
            return _said(place.relative_to(_OWN).as_posix(), frame.lineno, frame.line), False
        if is_authors(place) and place.is_file():
            return _said(place.name, frame.lineno, frame.line), True
    return "", False


def current_line() -> str:
    """The line of the author's that is running now."""
    return _deepest(traceback.extract_stack())


def frame_line(frame: FrameType) -> str:
    """The line that a frame is at."""
    place = Path(frame.f_code.co_filename)
    return _said(place.name, frame.f_lineno, linecache.getline(str(place), frame.f_lineno))


def quoted_line(text: str) -> str:
    """The last line of the author's that a message or a stack trace quotes."""
    for file, line, code in reversed(_QUOTED.findall(text)):
        place = Path(file)
        if is_authors(place):
            return _said(place.name, line, code)
    return ""


def source_line(places: Iterable[type | FunctionType], pattern: str) -> str:
    """The first line of the author's in these classes and functions that `pattern` is found in."""
    return next(_lines(places, pattern), "")


def return_line(function: Any) -> str:
    """The last `return` of a function."""
    return next(iter([*_lines([function], r"^return\b")][-1:]), "")


def _lines(places: Iterable[type | FunctionType], pattern: str) -> Iterator[str]:
    for place in places:
        file = _file(place)
        if file is None:
            continue
        lines, first = inspect.getsourcelines(place)
        for offset, text in enumerate(lines):
            if re.search(pattern, text.strip()):
                yield _said(file.name, first + offset, text)


def code_of(where: str) -> str:
    """The code that a place quotes, or nothing where the place is only a name."""
    match = _PLACE.fullmatch(where)
    return match[3] if match else ""


def place_of(where: str) -> tuple[str, int] | None:
    """File and line of a place; None where the place is only a name."""
    match = _PLACE.fullmatch(where)
    return (match[1], int(match[2])) if match else None


def is_authors(place: Path) -> bool:
    """Whether a file is neither ours, nor a library's, nor Python's own."""
    parents = place.parents
    if _OWN in parents or any(root in parents for root in _library_roots()):
        return False
    installed = {"site-packages", "dist-packages"} & set(place.parts)
    return bool(installed) or Path(sysconfig.get_path("stdlib")) not in parents


def _deepest(frames: traceback.StackSummary) -> str:
    for frame in reversed(frames):
        place = Path(frame.filename).resolve()
        if is_authors(place) and place.is_file():
            return _said(place.name, frame.lineno, frame.line)
    return ""


def _said(file: str, line: object, code: str | None) -> str:
    return f"{file}:{line} ({str(code).strip()})"


def _file(kind: type | FunctionType) -> Path | None:
    try:
        place = Path(inspect.getsourcefile(kind) or "").resolve()
    except TypeError:  # built in
        return None
    return place if is_authors(place) and place.is_file() else None


def is_machinery(kind: type) -> bool:
    """Whether a class is Python's own, or ours."""
    return kind.__module__.partition(".")[0] in MACHINERY


def is_authors_class(kind: type) -> bool:
    """Whether a class is neither ours, nor a library's, nor Python's own."""
    return not is_machinery(kind) and kind.__module__.partition(".")[0] not in LIBRARIES


@cache
def _library_roots() -> tuple[Path, ...]:
    found = []
    for name in LIBRARIES:
        # A package that is half there, or that somebody hides, is as good as not installed.
        with suppress(ImportError, ValueError):
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.origin is not None:
                found.append(Path(spec.origin).resolve().parent)
    return tuple(found)
