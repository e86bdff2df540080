"""The numbers behind a choice, taken where the original makes it: at its `argmax`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from roadworthy.operators.table import OPERATORS
from roadworthy.spec.port import Array
from roadworthy.spec.run import Arrays, Steppable
from roadworthy.verification.originals.interpreting import chosen_by_row

_CHOICES = frozenset(operator.name for operator in OPERATORS if operator.chooses)


class _ChoiceRecorder(TorchFunctionMode):
    """Keeps what enters each choice, once where it enters several.

    A choice is the place of the largest number along the last axis. TorchRL's one-hot actions
    compare the logits with their maximum.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: list[torch.Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in _CHOICES:
            value = args[0] if args else kwargs["input"]
            if chosen_by_row(value, args[1:], kwargs) and all(value is not e for e in self.found):
                self.found.append(value)
        return func(*args, **kwargs)


class _WatchedChoices:
    """A live original whose choices are seen."""

    def __init__(self, live: Steppable) -> None:
        self._live = live
        self.logits: list[tuple[Array, ...]] = []

    def reset(self, mask: Array | None = None) -> None:
        self._live.reset(mask)

    def step(self, inputs: Mapping[str, Array]) -> Arrays:
        recorder = _ChoiceRecorder()
        with recorder:
            outputs = self._live.step(inputs)
        self.logits.append(tuple(each.detach().cpu().numpy().copy() for each in recorder.found))
        return outputs

    @property
    def memory(self) -> Arrays:
        return self._live.memory


@contextmanager
def watched(opened: AbstractContextManager[Steppable]) -> Iterator[_WatchedChoices]:
    """The opened original, with the logits of its steps."""
    with opened as live:
        yield _WatchedChoices(live)
