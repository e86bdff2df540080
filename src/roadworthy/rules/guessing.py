"""An example for a module that came without one, read off its first layer."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import torch

from roadworthy.errors import Finding
from roadworthy.rules.patient import Patient

# Cameras in reinforcement learning are square and of this size more often than of any other.
_PIXELS = 84


def guess(module: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    """Input name → the shape of an example, or nothing where it cannot be told."""
    names = [*inspect.signature(module.forward).parameters]
    if len(names) > 1:
        return {}
    for layer in module.modules():
        shape = _wanted(layer)
        if shape is not None:
            return {names[0] if names and names[0] not in ("input", "args") else "obs": shape}
    return {}


def _wanted(layer: torch.nn.Module) -> tuple[int, ...] | None:
    if isinstance(layer, torch.nn.Linear) and layer.in_features > 0:
        return (1, layer.in_features)
    if isinstance(layer, torch.nn.Conv2d) and layer.in_channels > 0:
        return (1, layer.in_channels, _PIXELS, _PIXELS)
    if isinstance(layer, (torch.nn.RNNBase, torch.nn.RNNCellBase)):
        return (1, layer.input_size)
    return None


def example_lacking(patient: Patient) -> Iterator[Finding]:
    """The example to pass, so that the policy can be run and exported on trial."""
    shapes = guess(patient.module)
    listed = ", ".join(f"{n!r}: torch.zeros{shape}" for n, shape in shapes.items())
    yield Finding(
        code="RW171",
        where=patient.name,
        what="no example was given: the code was read, but nothing was run",
        hint=f"pass example={{{listed}}}"
        if shapes
        else "pass example={'obs': …}, batch axis first",
        severity="note",
    )
