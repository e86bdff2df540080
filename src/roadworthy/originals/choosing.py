"""The numbers behind a choice, taken where the original makes it: at its `argmax`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from roadworthy.operators.table import known
from roadworthy.spec.port import Array
from roadworthy.spec.run import Arrays, Steppable


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
        if known(getattr(func, "__name__", "")).chooses:
            value = args[0] if args else kwargs["input"]
            dim = args[1] if len(args) > 1 else kwargs.get("dim", kwargs.get("axis"))
            dim = dim[0] if isinstance(dim, (tuple, list)) and len(dim) == 1 else dim
            if isinstance(dim, int) and dim in (-1, value.ndim - 1) and value.ndim > 1:
                self._keep(value)
        return func(*args, **kwargs)

    def _keep(self, value: torch.Tensor) -> None:
        if value.is_floating_point() and all(value is not each for each in self.found):
            self.found.append(value)


class _WatchedChoices:
    """A live original whose choices are seen."""

    def __init__(self, live: Steppable) -> None:
        self._live = live
        self.logits: tuple[Array, ...] = ()

    def reset(self, mask: Array | None = None) -> None:
        self._live.reset(mask)

    def step(self, inputs: Mapping[str, Array]) -> Arrays:
        recorder = _ChoiceRecorder()
        with recorder:
            outputs = self._live.step(inputs)
        self.logits = tuple(each.detach().cpu().numpy().copy() for each in recorder.found)
        return outputs

    @property
    def memory(self) -> Arrays:
        return self._live.memory


@contextmanager
def watched(opened: AbstractContextManager[Steppable]) -> Iterator[_WatchedChoices]:
    """The opened original, with the logits of its last step."""
    with opened as live:
        yield _WatchedChoices(live)
