"""The interface that makes an environment exportable: five methods, and defaults for the rest."""

from __future__ import annotations

import abc
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from roadworthy.environment.context import ContextManager
from roadworthy.errors import Finding
from roadworthy.inspection.snapshot import preserved
from roadworthy.spec.port import About
from roadworthy.spec.robot import Robot

# One tensor, or one for each group of observations that the actor knows by name.
Observations = torch.Tensor | Mapping[str, torch.Tensor]


class ExportableEnvironment(abc.ABC):
    """An adapter around an environment. Register its tensors on `context_manager()`."""

    def __init__(self) -> None:
        self._context_manager = ContextManager()
        self._command_updates: list[Callable[[], None]] = []

    def context_manager(self) -> ContextManager:
        """Where inputs, outputs and memory are registered."""
        return self._context_manager

    @abc.abstractmethod
    def compute_observations(self) -> Observations:
        """The observations, (envs, width), from the present state; or a dict of such, by group."""

    @abc.abstractmethod
    def process_actions(self, actions: torch.Tensor) -> None:
        """Take the actor's actions in, at the policy's rate."""

    @abc.abstractmethod
    def apply_actions(self) -> None:
        """Turn processed actions into commands, at the simulation's rate."""

    @abc.abstractmethod
    def step(self, actions: torch.Tensor) -> tuple[Observations, bool]:
        """Advance by one policy step: the next observations, and whether a reset happened."""

    @abc.abstractmethod
    def empty_actions(self) -> torch.Tensor:
        """Zeros of the shape and dtype of the actions."""

    @property
    def decimation(self) -> int:
        """Simulation ticks in one policy step."""
        return 1

    def prepare_export(self) -> None:  # noqa: B027  # most environments have nothing to prepare
        """Called before each capture, and before each run that a file is compared with."""

    def empty_actor_observations(self) -> Observations:
        """Zeros of the shape and dtype of the observations."""
        # Observing may push a history, and nobody asked for that.
        with preserved(self), torch.no_grad():
            seen = self.compute_observations()
            if isinstance(seen, torch.Tensor):
                return torch.zeros_like(seen)
            return {name: torch.zeros_like(each) for name, each in seen.items()}

    def metadata(self) -> dict[str, str]:
        """Key-value pairs for the file."""
        return {}

    def robot(self) -> Robot | None:
        """Joints, gains and the meaning of the action, for the signature; None if unknown."""
        return None

    @property
    def tick_s(self) -> float | None:
        """How long one simulation tick is, in seconds; None where that is not known."""
        return None

    def about(self) -> Mapping[str, About]:
        """Name of a port → what is to be known about it: meaning, unit, element names."""
        return {}

    def advisories(self) -> Sequence[Finding]:
        """What is exported right, and may still not be meant: it is said with the certificate."""
        return ()

    def register_evaluation_hooks(  # noqa: B027  # kept for adapters that were written for it
        self,
        update: Callable[[], None],
        evaluate_substep: Callable[[int], None],
    ) -> None:
        """Not needed: evaluation drives the inputs itself.

        Adapters whose step() calls the hooks are given some that do nothing, before any step.
        """

    def get_observation_names(self) -> list[str]:
        """A name for each element of the observations, for reports."""
        empty = self.empty_actor_observations()
        parts = {"obs": empty} if isinstance(empty, torch.Tensor) else empty
        return [f"{n}_{index}" for n, each in parts.items() for index in range(each.shape[-1])]

    def observations_reset(self) -> Observations:
        """The observations after a reset; environments that can reset do so here."""
        return self.compute_observations()

    def register_command_update(self, command_update: Callable[[], None]) -> None:
        """Something to run before observations are computed."""
        self._command_updates.append(command_update)

    @property
    def command_updates(self) -> list[Callable[[], None]]:
        return self._command_updates


def register_idle_hooks(env: ExportableEnvironment) -> None:
    """Changes the environment: its evaluation hooks do nothing, by whatever names it takes them.

    Older adapters take a third one, `reset`.
    """
    register: Callable[..., None] = env.register_evaluation_hooks
    wanted = inspect.signature(register).parameters
    anything = any(each.kind is each.VAR_KEYWORD for each in wanted.values())
    names = ("update", "evaluate_substep") if anything else tuple(wanted)
    register(**dict.fromkeys(names, _idle))


def _idle(*_: Any) -> None:
    """Does nothing, in the place of a hook."""
