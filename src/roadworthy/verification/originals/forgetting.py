"""Recurrent cells that begin anew at every call: their state is thrown away inside of forward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import nn

from roadworthy.capture.memory import Slot, Tensors
from roadworthy.capture.source import Source
from roadworthy.errors import Finding
from roadworthy.inspection.snapshot import preserved
from roadworthy.verification.originals.calling import caller


def forgetting(source: Source, slots: Sequence[Slot], memory: Tensors) -> Iterator[Finding]:
    """A warning for each cell that takes one step from zeros; must be asked in `export_mode`."""
    kinds = (nn.RNNBase, nn.RNNCellBase)
    cells = {n: m for n, m in source.module.named_modules() if isinstance(m, kinds)}
    if not cells:
        return
    seen: dict[str, None] = {}

    def note(name: str, cell: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = dict(zip(("input", "hx"), args, strict=False)) | kwargs
        if given.get("hx") is None and _steps(cell, given["input"]) == 1:
            seen[name] = None

    try:
        with preserved(source.module), ExitStack() as hooks:
            for name, cell in cells.items():
                look = partial(note, name)
                handle = cell.register_forward_pre_hook(look, with_kwargs=True)
                hooks.callback(handle.remove)
            caller(source, slots, memory)(0)
    except Exception:  # an example that the action steps want more of says nothing here
        return
    for name in seen:
        if name not in source.ignore:
            kind = type(cells[name]).__name__
            yield Finding(
                code="RW107",
                where=f"{type(source.module).__name__}.{name}",
                what=f"the {kind} takes one step from zeros at every call: it remembers nothing",
                hint="if it should: take the state as an argument of forward, return the next one, "
                f"and declare it with memory=; if not: ignore=[{name!r}]",
                severity="warning",
            )


def _steps(cell: nn.Module, values: torch.Tensor) -> int:
    if isinstance(cell, nn.RNNCellBase):
        return 1
    return int(values.shape[1 if cell.batch_first and values.ndim == 3 else 0])
