"""A policy described on the command line: the options that `export` and `doctor` share."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roadworthy.errors import UsageError
from roadworthy.spec.port import DTYPES

if TYPE_CHECKING:
    import torch

Inputs = Annotated[
    list[str] | None,
    typer.Option("--input", help="NAME=SHAPE of one row: obs=48, image=uint8:84,84,4"),
]
Memories = Annotated[
    list[str] | None, typer.Option("--memory", help="NAME=attribute that persists: h=hidden")
]
Outputs = Annotated[
    list[str] | None, typer.Option("--output", help="Name of a result; - leaves it out.")
]

_INPUT = re.compile(r"(?P<name>[^=]+)=(?:(?P<dtype>[a-z]+\d*):)?(?P<shape>(?:\d+(?:,\d+)*)?)")


def keywords(inputs: Inputs, memory: Memories, outputs: Outputs) -> dict[str, Any]:
    """What was said, as `rw.export` takes it; None for what was not said."""
    return {
        "example": dict(example(each) for each in inputs) if inputs else None,
        "memory": dict(pair(each) for each in memory) if memory else None,
        "normalizer": None,
        "outputs": [None if name == "-" else name for name in outputs] if outputs else None,
        "action": (),
    }


def example(text: str) -> tuple[str, torch.Tensor]:
    """Name and example of an input, from `NAME=SHAPE`."""
    import torch

    match = _INPUT.fullmatch(text)
    dtype = (match["dtype"] or "float32") if match else ""
    if match is None or dtype not in DTYPES:
        raise UsageError(
            f"cannot read --input {text!r}",
            hint="NAME=SHAPE such as obs=48, image=uint8:84,84,4 or step=int64:",
        )
    shape = [int(size) for size in match["shape"].split(",") if size]
    return match["name"], torch.zeros(2, *shape, dtype=getattr(torch, dtype))


def pair(text: str) -> tuple[str, str]:
    """Name and attribute of a memory, from `NAME=attribute`."""
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise UsageError(f"cannot read --memory {text!r}", hint="NAME=attribute, such as h=hidden")
    return name, path
