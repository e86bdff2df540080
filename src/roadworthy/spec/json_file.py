"""JSON from a file that somebody else may have written: read within limits, and held to its form.

A form is a type, a tuple of forms of which one must fit, a list with the form of every item, or a
dict with the form of each entry: `"name?"` may be missing, and `"*"` is for every other name.
Entries that a form does not name are let through: what reads them judges them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from roadworthy.errors import BundleError, Finding, RoadworthyError
from roadworthy.spec.limits import JSON_BYTES, JSON_DEPTH, refuse_larger

Form = type | tuple[Any, ...] | list[Any] | dict[str, Any] | Callable[[object], bool] | None
HINT = "copy the bundle again from its source, or export it again"
# What reading plain data raises where it is not as expected.
_UNEXPECTED = (
    ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError,
    MemoryError,
)  # fmt: skip
_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
MOST_FINDINGS = 10


def from_json(data: bytes | str, *, where: str) -> Any:
    """What the JSON says; an error with the reason where it is none, too large or too deep."""
    refuse_larger("the JSON has", len(data), JSON_BYTES, where=where)
    with understood(where):
        # What json itself accepts beyond the standard would be a number that no check expects.
        found = json.loads(data, parse_constant=_refuse_constant)
        _refuse_deep(found)
    return found


@contextmanager
def understood(where: str) -> Iterator[None]:
    """Whatever is raised by data that is not as expected, as an error that names the file."""
    try:
        yield
    except BundleError:
        raise
    except RoadworthyError as error:
        raise BundleError(findings=error.findings) from error
    except _UNEXPECTED as error:
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise BundleError(
            f"it cannot be understood ({said[:200]})", code="RW205", where=where, hint=HINT
        ) from error


def refuse_malformed(data: object, form: Form, *, where: str) -> None:
    """An error with every place at which the data is not of the form."""
    findings = [
        Finding(
            code="RW205",
            where=f"{where}: {path}" if path else where,
            what=f"expected {expected}, got {got}",
            hint=HINT,
        )
        for path, expected, got in _problems(data, form, "")
    ]
    if findings:
        raise BundleError(findings=findings[:MOST_FINDINGS])


def numbers(value: object) -> bool:
    """Whether it is a number, a word for infinity, or nested lists of them."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += each
        elif not isinstance(each, (bool, int, float)) and each not in ("inf", "-inf"):
            return False
    return True


def _problems(data: object, form: Form, path: str) -> Iterator[tuple[str, str, str]]:
    if isinstance(form, dict):
        if not isinstance(data, dict):
            yield path, "an object", _shown(data)
            return
        rest = form.get("*")
        named = {name.removesuffix("?"): (name, each) for name, each in form.items() if name != "*"}
        for name, (written, each) in named.items():
            below = f"{path}.{name}" if path else name
            if name in data:
                yield from _problems(data[name], each, below)
            elif not written.endswith("?"):
                yield below, _expected(each), "nothing"
        if rest is not None:
            for name in data.keys() - named.keys():
                yield from _problems(data[name], rest, f"{path}.{name}" if path else str(name))
    elif isinstance(form, list):
        if not isinstance(data, list):
            yield path, "a list", _shown(data)
            return
        for index, each in enumerate(data):
            yield from _problems(each, form[0], f"{path}[{index}]")
    elif isinstance(form, tuple):
        if not any(next(_problems(data, each, path), None) is None for each in form):
            structured = [each for each in form if isinstance(each, dict)]
            if structured and isinstance(data, dict):
                yield from _problems(data, structured[0], path)
            else:
                yield path, _expected(form), _shown(data)
    elif not _fits(data, form):
        yield path, _expected(form), _shown(data)


def _fits(data: object, form: Form) -> bool:
    if form is None:
        return data is None
    if form is float:
        return type(data) in (int, float) and math.isfinite(float(data))  # type: ignore[arg-type]
    if isinstance(form, type):
        return type(data) is form
    return callable(form) and bool(form(data))


def _expected(form: Form) -> str:
    if isinstance(form, tuple):
        return " or ".join(_expected(each) for each in form)
    if form is None:
        return "null"
    if isinstance(form, type):
        return _NAMES[form]
    if isinstance(form, (dict, list)):
        return "an object" if isinstance(form, dict) else "a list"
    return getattr(form, "__name__", "another value")


def _shown(data: object) -> str:
    if isinstance(data, (dict, list)):
        return "an object" if isinstance(data, dict) else "a list"
    return "null" if data is None else repr(data)[:60]


def _refuse_deep(data: object) -> None:
    level, depth = [data], 0
    while level:
        depth += 1
        if depth > JSON_DEPTH:
            raise ValueError(f"it nests more than {JSON_DEPTH} levels deep")
        lists = [each for each in level if isinstance(each, (list, dict))]
        level = [
            item for each in lists for item in (each.values() if isinstance(each, dict) else each)
        ]


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")
