"""An environment and its actor as one thing that steps: what is captured, and what is compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from roadworthy.environment.actor import ExportableActor
from roadworthy.environment.components import GetTensor, Input, Memory, Output, is_number
from roadworthy.environment.exportable import ExportableEnvironment, Observations
from roadworthy.environment.numbers import Number, located
from roadworthy.errors import UsageError
from roadworthy.inspection.snapshot import preserved
from roadworthy.spec.port import BATCH

ACTIONS, OBSERVATIONS, CLOCK = "actions", "obs", "ctx.step_count"

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class EnvironmentSource:
    """The parts of an export.

    handed_over  memory that process_actions leaves for apply_actions without having been
                 registered, by attribute path
    unused       the names of Inputs that no output depends on: they are left out
    ignore       attributes that move and do not matter, by name, as the user says
    """

    env: ExportableEnvironment
    actor: torch.nn.Module
    handed_over: Mapping[str, GetTensor] = field(default_factory=dict)
    unused: frozenset[str] = frozenset()
    ignore: tuple[str, ...] = ()
    _numbers: dict[str, Number] = field(default_factory=dict)
    # The components that were found to return tensors, by name: asked once, not at every reading.
    _tensors: dict[str, Input | Output] = field(default_factory=dict)
    _empty: Tensors = field(default_factory=dict)

    @property
    def inputs(self) -> dict[str, GetTensor]:
        found = self.env.context_manager().get_input_components()
        return {
            c.input_name: self._read(c)
            for c in found
            if not isinstance(c, Memory) and c.input_name not in self.unused
        }

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
        if self._tensors.get(component.name) is component:
            return component.get_from_env_cb
        if component.name not in self._numbers:
            read = component.get_from_env_cb
            if not is_number(read()):
                self._tensors[component.name] = component
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

    def step(self) -> tuple[torch.Tensor, Tensors]:
        """Observe, act, process, apply on the live objects: actions and observations."""
        self.env.context_manager().write_connections()
        for update in self.env.command_updates:
            update()
        observations = self.env.compute_observations()
        actions: torch.Tensor = self.actor(observations)
        self.env.process_actions(actions)
        self.env.apply_actions()
        return actions, observed_ports(observations)

    def substep(self) -> tuple[torch.Tensor, Tensors]:
        """Apply alone; there are no new actions and observations, and zeros stand for them."""
        self.env.context_manager().write_connections()
        self.env.apply_actions()
        empty = self.empty_observations()
        return self.env.empty_actions(), {n: torch.zeros_like(e) for n, e in empty.items()}

    def empty_observations(self) -> Tensors:
        """Zeros of the observations' shapes, by port.

        Observed once, on the side: observing may push a history, and that is not for the ticks
        between two decisions. `empty_actor_observations` observes too, in most adapters.
        """
        if not self._empty:
            with preserved(*self.roots.values()), torch.no_grad():
                seen = observed_ports(self.env.compute_observations())
            self._empty.update({name: torch.zeros_like(each) for name, each in seen.items()})
        return self._empty

    def restart(self) -> None:
        """The state in which an episode begins."""
        self.env.observations_reset()
        if isinstance(self.actor, ExportableActor):
            everywhere = self.env.empty_actions().new_ones(self.rows, dtype=torch.bool)
            self.actor.reset(everywhere)


Half = Callable[[], tuple[torch.Tensor, Tensors]]


def observed_ports(observations: Observations) -> Tensors:
    """Observations by the output that shows them: `obs`, or `obs.<group>` for each group."""
    if isinstance(observations, torch.Tensor):
        return {OBSERVATIONS: observations}
    return {f"{OBSERVATIONS}.{name}": each for name, each in observations.items()}


def copied(observations: Observations) -> Observations:
    """The observations as they are now, whatever is written into them later."""
    if isinstance(observations, torch.Tensor):
        return observations.clone()
    return {name: each.clone() for name, each in observations.items()}


def results(
    source: EnvironmentSource, half: Half, seen: Callable[[torch.Tensor], torch.Tensor]
) -> tuple[Tensors, Tensors]:
    """What one half of a policy step gives: outputs and memory, each looked at through `seen`."""
    actions, observations = half()
    outputs = {ACTIONS: seen(actions)}
    outputs |= {name: seen(value) for name, value in observations.items()}
    outputs |= {name: seen(read()) for name, read in source.outputs.items()}
    return outputs, {name: seen(read()) for name, read in source.memory.items()}


def refuse_other_types(env: object) -> None:
    """An error for what is no environment that can be exported, before anything is asked of it."""
    if not isinstance(env, ExportableEnvironment):
        raise UsageError(
            f"a {type(env).__name__} is no environment that can be exported: expected an "
            "ExportableEnvironment, or an environment of a framework that an adapter knows",
            where="env",
            hint="derive an adapter from roadworthy.environment.ExportableEnvironment "
            "(docs/environments.md)",
        )


def describe(
    env: ExportableEnvironment,
    *,
    actor: torch.nn.Module | None = None,
    auto: bool = False,
    ignore: Sequence[str] = (),
) -> EnvironmentSource:
    """The source of a whole environment; `auto` registers what was forgotten.

    `ignore` names attributes that move and do not matter: the file holds them as they are now.
    """
    if actor is None:
        raise UsageError(
            "the actor is missing: an environment is exported together with it",
            where=type(env).__name__,
            hint="rw.export_environment(env, actor, folder), or pass actor=…",
        )
    if auto:
        from roadworthy.environment.discovery import discover  # which looks at a source itself

        discover(env, actor).register()
    names = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    return EnvironmentSource(env, actor, ignore=names)
