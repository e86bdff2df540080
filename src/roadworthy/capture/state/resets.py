"""The module's own `reset()`, beside where the declared memory starts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from roadworthy.capture import memory as remembered
from roadworthy.capture.compose import ComposedPolicy
from roadworthy.capture.memory import Tensors, alike, as_tensor
from roadworthy.errors import ExportError, Finding
from roadworthy.inspection.snapshot import preserved

_NAMES = ("reset", "reset_memory", "reset_hidden", "reset_state", "reset_states")


def refuse_resets(
    composed: ComposedPolicy, inputs: Tensors, memory: Tensors, rows: Mapping[str, torch.Tensor]
) -> None:
    """An error where the module's `reset()` leads elsewhere than to the declared start."""
    found = [
        finding
        for name, reset in _resets(composed.module)
        for finding in _differences(composed, name, reset, inputs, memory, rows)
    ]
    if found:
        raise ExportError(findings=found)


def _resets(module: torch.nn.Module) -> Iterator[tuple[str, Callable[[], Any]]]:
    for name in _NAMES:
        reset = getattr(module, name, None)
        if callable(reset):
            parameters = inspect.signature(reset).parameters.values()
            starred = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
            if all(p.default is not p.empty or p.kind in starred for p in parameters):
                yield name, reset


def _differences(
    composed: ComposedPolicy,
    name: str,
    reset: Callable[[], Any],
    inputs: Tensors,
    memory: Tensors,
    rows: Mapping[str, torch.Tensor],
) -> Iterator[Finding]:
    slots = [each for each in composed.slots if each.path is not None]
    if not slots:
        return
    with preserved(composed.module), torch.no_grad():
        composed(
            {n: v.clone() for n, v in inputs.items()}, {n: v.clone() for n, v in memory.items()}
        )
        try:
            reset()
        except Exception:  # it wants what only a training loop has
            return
        for slot in slots:
            path = str(slot.path)
            held = remembered.attribute(composed.module, path)
            # What the first call makes has no value after a reset.
            there = slot.start is None and alike(held, slot.form.template)
            leaves = slot.form.unpack(held, path) if there and held is not None else {}
            for port, value in leaves.items():
                tensor = as_tensor(value)
                if not _starts(tensor, rows[port]):
                    yield _difference(composed, name, slot.name, path, tensor, rows[port])


def _starts(value: torch.Tensor, start: torch.Tensor) -> bool:
    try:
        return bool((value == start.to(value.dtype)).all())
    except RuntimeError:  # another number of rows along another axis
        return bool(value.numel() == 0 or (start == start.reshape(-1)[0]).all()) and bool(
            (value == start.reshape(-1)[0]).all()
        )


def _difference(
    composed: ComposedPolicy,
    name: str,
    memory: str,
    path: str,
    value: torch.Tensor,
    start: torch.Tensor,
) -> Finding:
    got, declared = value.reshape(-1)[0].item(), start.reshape(-1)[0].item()
    one = bool((value == got).all())
    initial = f"{got:g}" if one else "…"
    return Finding(
        code="RW114",
        where=f"{type(composed.module).__name__}.{path}",
        what=f"{name}() sets it to {initial if one else 'other values'}; the declared memory "
        f"starts at {declared:g}",
        hint=f"say where an episode starts: memory={{{memory!r}: "
        f"rw.Attribute({path!r}, initial={initial})}}",
    )
