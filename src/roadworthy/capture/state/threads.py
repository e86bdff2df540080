"""Threads of the author's that run beside the policy and share something with it."""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Iterator

import torch

from roadworthy.errors import ExportError, Finding
from roadworthy.errors.lines import frame_line
from roadworthy.inspection.entered import is_authors_code
from roadworthy.inspection.reach import ATOMS, Reach, root

# What every thread can see: sharing it says nothing.
_EVERYBODYS = (types.ModuleType, types.FunctionType, type)


def refuse_threads(module: torch.nn.Module) -> None:
    """An error for a thread that shares something with the module, before anything is called.

    What such a thread does between two calls no call shows; and a call that waits for its answer
    would wait for ever beside a copy of what they share.
    """
    others = [each for each in threading.enumerate() if each is not threading.current_thread()]
    if not others:
        return
    reached = Reach().walk([root("", module)])
    shared = {id(each.value) for each in reached if not _is_everybodys(each.value)}
    found = [
        Finding(
            code="RW124",
            where=line,
            what=f"the thread {thread.name!r} runs beside the policy and shares something with it",
            hint="stop it before the export, and make what it finds an input of the policy",
        )
        for thread in others
        for line in _sharing(thread, shared)
    ]
    if found:
        raise ExportError(findings=found)


def _sharing(thread: threading.Thread, shared: set[int]) -> Iterator[str]:
    """The author's lines at which a thread holds something that is shared."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        held = frame.f_locals.values() if is_authors_code(frame.f_code) else ()
        if any(id(each) in shared for each in held):
            yield frame_line(frame)
        frame = frame.f_back


def _is_everybodys(value: object) -> bool:
    return isinstance(value, (*ATOMS, *_EVERYBODYS))
