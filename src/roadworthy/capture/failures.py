"""Failures inside the user's code, and inside torch.export, as findings that name a line."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from roadworthy.capture.source import Source
from roadworthy.errors import BatchSpecialised, ExportError, RoadworthyError

_OWN = Path(__file__).resolve().parent.parent
_TORCH = Path(torch.__file__).resolve().parent
_SPECIALISED = re.compile(r"specialized it to be a constant \((\d+)\)")
_GUARD = re.compile(r"Not all values of (\w+) .* satisfy the generated guard ([^\n]+)")
_NUMBER = re.compile(r"\.item\(|\.tolist\(|float\(|int\(|bool\(")
_READ_SIZES = (
    "replace constants such as view(3, -1) or zeros(3, …) by obs.shape[0], "
    "or fix the size on purpose: Source(…, batch=1)"
)
_CALL_SITE = re.compile(r'File "([^"]+)", line (\d+), in [^\n]+\n\s+([^\n]+)')


@contextmanager
def explained(source: Source, rows: int | None = None) -> Iterator[None]:
    """Whatever the user's module raises becomes an error with its file and line.

    `rows` is the number of rows it is run with, where the example had another number.
    """
    try:
        yield
    except RoadworthyError:
        raise
    except Exception as error:
        if rows is not None:
            raise BatchSpecialised(
                f"forward runs on the example, but with {rows} rows it raised "
                f"{type(error).__name__}: {_first_line(error)}",
                where=user_line(error) or type(source.module).__name__,
                hint=f"the example's first axis must be the batch axis; {_READ_SIZES}",
            ) from error
        raise ExportError(
            f"forward raised {type(error).__name__}: {_first_line(error)}",
            code="RW102",
            where=user_line(error) or type(source.module).__name__,
            hint="run the module on the example; its first axis is the batch, of any size",
        ) from error


def capture_failure(error: Exception, name: str) -> ExportError:
    """The finding for what torch.export raised about the module or environment called `name`."""
    text = str(error)
    where = user_line(error) or _quoted_line(text) or name
    if match := _SPECIALISED.search(text):
        return BatchSpecialised(
            f"the module works for one batch size only: it was traced with {match[1]} rows "
            f"and fixed that number",
            where=where,
            hint=_READ_SIZES,
        )
    if match := _GUARD.search(text):
        return BatchSpecialised(
            f"the module treats some sizes of {match[1]!r} differently: {match[2]}",
            where=where,
            hint="branch on no size, or fix it on purpose: Source(…, batch=1)",
        )
    if "data-dependent" in text and _NUMBER.search(where):
        return ExportError(
            "the value of a tensor is read as a Python number; a graph would freeze it",
            code="RW103",
            where=where,
            hint="stay with tensors: drop .item(), float(), int() and bool()",
        )
    if "data-dependent" in text:
        return ExportError(
            "the code branches on the value of a tensor; a graph would freeze one side",
            code="RW103",
            where=where,
            hint="compute both sides and choose: torch.where(condition, a, b)",
        )
    if ".numpy()" in text or "data pointer" in text:
        return ExportError(
            "the code leaves PyTorch for NumPy; a graph would freeze what comes back",
            code="RW103",
            where=where,
            hint="write the line with torch operations",
        )
    return ExportError(
        f"torch.export cannot capture it: {_first_line(error)}",
        code="RW104",
        where=where,
        hint="the line above is the first that could not be captured",
    )


def user_line(error: BaseException) -> str:
    """`file.py:12 (code)`: the deepest line of the traceback that is neither ours nor torch's."""
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        place = Path(frame.filename).resolve()
        if _OWN not in place.parents and _TORCH not in place.parents and place.is_file():
            return f"{place.name}:{frame.lineno} ({frame.line})"
    return ""


def _quoted_line(text: str) -> str:
    """The last call site that torch quotes in a message."""
    for file, line, code in reversed(_CALL_SITE.findall(text)):
        place = Path(file)
        if _OWN not in place.parents and _TORCH not in place.parents:
            return f"{place.name}:{line} ({code.strip()})"
    return ""


def _first_line(error: BaseException) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
