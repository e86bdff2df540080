"""What long work says while it lasts: one line on a terminal or in a notebook, gone at its end."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

Say = Callable[[str], None]
# Called with each stage of the work, in words. None shows them where someone looks, False never.
Progress = Say | bool | None
# Seconds for which nobody wonders.
PATIENCE = 2.0


@contextmanager
def told(progress: Progress) -> Iterator[Say]:
    """The function to which stages are said."""
    if callable(progress):
        yield progress
        return
    # Bound now: while libraries are silenced, sys.stderr is not the terminal.
    stream = _watched()
    if progress is False or stream is None:
        yield lambda stage: None
        return
    line = _Line(stream)
    try:
        yield line.say
    finally:
        line.end()


def _watched() -> TextIO | None:
    """Where a person sees a line that is written over: a terminal, or the cell of a notebook."""
    if "ipykernel" in sys.modules:
        return sys.stdout
    return sys.stderr if sys.stderr is not None and sys.stderr.isatty() else None


class _Line:
    """One line that shows the stage, from the moment on at which someone might wonder."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._stage = ""
        self._shows = False
        self._lock = threading.Lock()
        # A stage may itself be what takes long: nobody says anything more until it has ended.
        self._timer = threading.Timer(PATIENCE, self._begin)
        self._timer.daemon = True
        self._timer.start()

    def say(self, stage: str) -> None:
        with self._lock:
            self._stage = stage
            if self._shows:
                self._write(f"roadworthy: {stage} …")

    def end(self) -> None:
        self._timer.cancel()
        with self._lock:
            if self._shows:
                self._write("")
            self._shows = False

    def _begin(self) -> None:
        with self._lock:
            self._shows = True
            self._write(f"roadworthy: {self._stage or 'starting'} …")

    def _write(self, text: str) -> None:
        self._stream.write(f"\r\x1b[2K{text}")
        self._stream.flush()
