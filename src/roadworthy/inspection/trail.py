"""The way that a call takes through the author's code, instruction by instruction."""

from __future__ import annotations

import sys
import types
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch.overrides import TorchFunctionMode

from roadworthy.inspection.entered import is_authors_code


class _NotInside(TorchFunctionMode):
    """Follows nobody into an operator: Python runs twice as slow where it is followed at all."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        following = sys.gettrace()
        sys.settrace(None)
        try:
            return func(*args, **(kwargs or {}))
        finally:
            sys.settrace(following)


@dataclass(slots=True, eq=False)
class Trail:
    """Code → offsets of the instructions that ran; of `only` some code, where that is given."""

    only: Collection[types.CodeType] | None = None
    steps: dict[types.CodeType, set[int]] = field(default_factory=dict)

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Notes what runs until the block ends."""
        before, only = sys.gettrace(), self.only

        # Called for every Python function that runs, a hundred thousand times in a capture.
        if only is None:

            def enter(frame: types.FrameType, event: str, arg: Any) -> Any:
                return self._local(frame) if is_authors_code(frame.f_code) else None
        else:

            def enter(frame: types.FrameType, event: str, arg: Any) -> Any:
                return self._local(frame) if frame.f_code in only else None

        sys.settrace(enter)
        try:
            with _NotInside():
                yield
        finally:
            sys.settrace(before)

    def _local(self, frame: types.FrameType) -> Any:
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        offsets = self.steps.setdefault(frame.f_code, set())

        def local(frame: types.FrameType, event: str, arg: Any) -> Any:
            if event == "opcode":
                offsets.add(frame.f_lasti)
            return local

        return local

    def first_beyond(self, other: Trail) -> tuple[types.CodeType, int] | None:
        """The first instruction that only this trail has."""
        for code, offsets in self.steps.items():
            beyond = offsets - other.steps.get(code, set())
            if beyond and code in other.steps:
                return code, min(beyond)
        return None
