"""`x.data` while a graph is captured: a detached tensor, which a graph can hold."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from roadworthy.capture.failures.capture_rules import WRITES_DATA
from roadworthy.errors.lines import source_line
from roadworthy.inspection.entered import is_authors_code

_LOST = "fake tensor in the exported program constant's list"


def reads_data(error: BaseException, classes: Sequence[type]) -> bool:
    """Whether a capture failed because the author's code reads `.data`, and never writes it."""
    return (
        _LOST in str(error)
        and bool(source_line(classes, r"\.data\b"))
        and not source_line(classes, WRITES_DATA)
    )


@contextmanager
def data_is_detached() -> Iterator[None]:
    """`x.data` in the author's code is `x.detach()`, until the block ends."""
    usual: Any = torch._C.TensorBase.data

    def read(tensor: torch.Tensor) -> Any:
        if is_authors_code(sys._getframe(1).f_code):
            return tensor.detach()
        return usual.__get__(tensor)

    setattr(torch.Tensor, "data", property(read, usual.__set__, usual.__delete__))  # noqa: B010
    try:
        yield
    finally:
        del torch.Tensor.data
