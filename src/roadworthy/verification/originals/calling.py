"""One call of a source's policy on its example, with everything around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from roadworthy.capture.call_style import call_style
from roadworthy.capture.compose import ComposedPolicy
from roadworthy.capture.memory import Slot, Tensors
from roadworthy.capture.source import Source

Call = Callable[[int], list[torch.Tensor]]


def caller(source: Source, slots: Sequence[Slot], memory: Tensors) -> Call:
    """A function that calls the policy and gives its outputs and its next memory."""
    arguments = [each.name for each in slots if each.path is None]
    composed = ComposedPolicy(source, call_style(source, arguments), tuple(slots))

    def call(index: int) -> list[torch.Tensor]:
        with torch.no_grad():
            outputs, after = composed(
                {name: value.clone() for name, value in source.tensors.items()},
                {name: value.clone() for name, value in memory.items()},
            )
        return [*outputs.values(), *after.values()]

    return call
