"""Actors that an environment is exported with."""

from __future__ import annotations

import abc
from collections.abc import Callable
from functools import partial

import torch

from roadworthy.environment.components import Memory
from roadworthy.environment.context import ContextManager
from roadworthy.errors import UsageError

GetState = Callable[[], tuple[torch.Tensor, ...] | None]


class ExportableActor(torch.nn.Module, abc.ABC):
    """Observations → actions, with a state that can be read and reset."""

    @abc.abstractmethod
    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """The actions for a batch of observations."""

    def reset(self, dones: torch.Tensor) -> None:
        """Start the rows where `dones` is true anew."""

    def get_state(self) -> tuple[torch.Tensor, ...] | None:
        """The tensors that persist between steps; None where there are none."""
        return None


class _Plain(ExportableActor):
    def __init__(self, actor: torch.nn.Module) -> None:
        super().__init__()
        self.actor = actor

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        actions: torch.Tensor = self.actor(obs)
        return actions


def make_exportable_actor(actor: torch.nn.Module) -> ExportableActor:
    """The module as an actor without state."""
    return actor if isinstance(actor, ExportableActor) else _Plain(actor)


def add_actor_memory(context_manager: ContextManager, get_hidden_states_func: GetState) -> None:
    """Register every hidden state of the actor as memory: `actor_hidden_state_0`, …"""
    states = get_hidden_states_func()
    if states is None:
        raise UsageError(
            "the actor has no state yet",
            where="add_actor_memory",
            hint="run it once first: actor(env.empty_actor_observations())",
        )
    if not isinstance(states, tuple) or not all(isinstance(s, torch.Tensor) for s in states):
        raise UsageError(
            f"expected a tuple of tensors, got {type(states).__name__}",
            where="add_actor_memory",
            hint="return a tuple such as (h,) or (h, c)",
        )
    for index in range(len(states)):
        read = partial(_state, get_hidden_states_func, index)
        context_manager.add_component(Memory(f"actor_hidden_state_{index}", read))


def _state(get_hidden_states_func: GetState, index: int) -> torch.Tensor:
    states = get_hidden_states_func()
    assert states is not None
    return states[index]
