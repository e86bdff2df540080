"""The actor of a manager-based environment: it takes groups, the environment gives one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import torch

from roadworthy.environment.actor import ExportableActor

Shapes = Mapping[str, tuple[int, ...]]


class GroupActor(ExportableActor):
    """Cuts the observations into their groups, asks the model, and clips as the wrapper did.

    `by_name` says that the model takes a mapping of groups; any other module takes the one row.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        shapes: Shapes,
        *,
        by_name: bool,
        clip_actions: float | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.shapes = dict(shapes)
        self.by_name = by_name
        self.clip_actions = clip_actions
        # The shapes of a hidden state, once one was seen.
        self.hidden: tuple[tuple[int, ...], ...] = ()

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        actions: torch.Tensor = self.model(self._groups(obs) if self.by_name else obs)
        if self.clip_actions is not None:
            actions = torch.clamp(actions, -self.clip_actions, self.clip_actions)
        return actions

    def _groups(self, obs: torch.Tensor) -> dict[str, torch.Tensor]:
        found, start = {}, 0
        for name, shape in self.shapes.items():
            width = prod(shape)
            found[name] = obs[:, start : start + width].reshape(-1, *shape)
            start += width
        return found

    def reset(self, dones: torch.Tensor) -> None:
        state = self.get_state()
        if state is not None:
            # In place of the model's own reset, which knows no dones at some versions.
            for each in state:
                each[:, dones] = 0.0

    def get_state(self) -> tuple[torch.Tensor, ...] | None:
        ask = getattr(self.model, "get_hidden_state", None)
        state = ask() if callable(ask) else None
        if state is None and self.hidden:
            # It never ran: this is what it begins with, and what a port of it can be written to.
            state = tuple(torch.zeros(shape) for shape in self.hidden)
            begin: Callable[..., object] = self.model.reset  # type: ignore[assignment]
            begin(hidden_state=state if len(state) > 1 else state[0])
        if state is None:
            return None
        return state if isinstance(state, tuple) else (state,)
