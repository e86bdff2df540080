"""An environment and its actor as one thing that steps: what is captured, and what is compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from roadworthy.environment.actor import ExportableActor
from roadworthy.environment.components import GetTensor, Input, Memory, Output, is_number
from roadworthy.environment.exportable import ExportableEnvironment
from roadworthy.environment.numbers import Number, located
from roadworthy.errors import UsageError
from roadworthy.spec.port import BATCH

ACTIONS, OBSERVATIONS, CLOCK = "actions", "obs", "ctx.step_count"

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class EnvironmentSource:
    """The parts of an export: `handed_over` is memory that process_actions leaves for
    apply_actions without having been registered, by attribute path."""

    env: ExportableEnvironment
    actor: torch.nn.Module
    handed_over: Mapping[str, GetTensor] = field(default_factory=dict)
    _numbers: dict[str, Number] = field(default_factory=dict)

    @property
    def inputs(self) -> dict[str, GetTensor]:
        found = self.env.context_manager().get_input_components()
        return {c.input_name: self._read(c) for c in found if not isinstance(c, Memory)}

    @property
    def outputs(self) -> dict[str, GetTensor]:
        found = self.env.context_manager().get_output_components()
        return {c.output_name: self._read(c) for c in found if not isinstance(c, Memory)}

    @property
    def memory(self) -> dict[str, GetTensor]:
        """Memory name → tensor; the ports are called memory.<name>.in and .out."""
        found = self.env.context_manager().get_memory_components()
        return {c.name: self._read(c) for c in found} | dict(self.handed_over)

    def _read(self, component: Input | Output) -> GetTensor:
        """The component's callback, or the number that it returns, once that has been found."""
        if component.name not in self._numbers:
            read = component.get_from_env_cb
            if not is_number(read()):
                return read
            self._numbers[component.name] = located(component.name, read, self.roots)
        return self._numbers[component.name]

    @property
    def ports(self) -> dict[str, GetTensor]:
        """Everything that enters the graph, in the order of its arguments."""
        return self.inputs | {f"memory.{name}.in": read for name, read in self.memory.items()}

    @property
    def rows(self) -> int:
        return int(self.env.empty_actions().shape[0])

    def shape(self, value: torch.Tensor, *, symbolic: bool) -> tuple[int | str, ...]:
        """The shape of a port; with `symbolic`, the axis of the environments is the batch."""
        shape: list[int | str] = list(value.shape)
        if symbolic and self.rows in value.shape:
            # Hidden states have layers first; everything else has the environments first.
            shape[
                1 if value.ndim == 3 and value.shape[1] == self.rows else shape.index(self.rows)
            ] = BATCH
        return tuple(shape)

    @property
    def roots(self) -> dict[str, object]:
        """Where attribute paths begin."""
        return {"env": self.env, "actor": self.actor}

    def step(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Observe, act, process, apply on the live objects: actions and observations."""
        self.env.context_manager().write_connections()
        for update in self.env.command_updates:
            update()
        observations = self.env.compute_observations()
        actions: torch.Tensor = self.actor(observations)
        self.env.process_actions(actions)
        self.env.apply_actions()
        return actions, observations

    def substep(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Apply alone; there are no new actions and observations, and zeros stand for them."""
        self.env.context_manager().write_connections()
        self.env.apply_actions()
        return self.env.empty_actions(), self.env.empty_actor_observations()

    def restart(self) -> None:
        """The state in which an episode begins."""
        self.env.observations_reset()
        if isinstance(self.actor, ExportableActor):
            self.actor.reset(torch.ones(self.rows, dtype=torch.bool))


Half = Callable[[], tuple[torch.Tensor, torch.Tensor]]


def results(
    source: EnvironmentSource, half: Half, seen: Callable[[torch.Tensor], torch.Tensor]
) -> tuple[Tensors, Tensors]:
    """What one half of a policy step gives: outputs and memory, each looked at through `seen`."""
    actions, observations = half()
    outputs = {ACTIONS: seen(actions), OBSERVATIONS: seen(observations)}
    outputs |= {name: seen(read()) for name, read in source.outputs.items()}
    return outputs, {name: seen(read()) for name, read in source.memory.items()}


def refuse_other_types(env: object) -> None:
    """An error for what is no environment that can be exported, before anything is asked of it."""
    if not isinstance(env, ExportableEnvironment):
        raise UsageError(
            f"a {type(env).__name__} is no environment that can be exported: expected an "
            "ExportableEnvironment, or an environment of a framework that an adapter knows",
            where="env",
            hint="derive an adapter from rw.ExportableEnvironment; docs/environments.md shows one",
        )


def describe(
    env: ExportableEnvironment, *, actor: torch.nn.Module | None = None, auto: bool = False
) -> EnvironmentSource:
    """The source of a whole environment; `auto` registers what was forgotten."""
    if actor is None:
        raise UsageError(
            "the actor is missing: an environment is exported together with it",
            where=type(env).__name__,
            hint="rw.export_environment(env, actor, folder), or pass actor=…",
        )
    if auto:
        from roadworthy.environment.discovery import discover  # which looks at a source itself

        discover(env, actor).register()
    return EnvironmentSource(env, actor)
