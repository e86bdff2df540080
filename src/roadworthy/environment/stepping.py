"""The environment as a pure function of its ports: what torch.export sees."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch.export.passes import move_to_device_pass

from roadworthy.capture.failures import capture_failure
from roadworthy.capture.substitution import Read, Substitution, regions
from roadworthy.capture.traceable import traceable
from roadworthy.environment.exportable import ExportableEnvironment, register_idle_hooks
from roadworthy.environment.numbers import WRITTEN
from roadworthy.environment.reaching import Reach, reach
from roadworthy.environment.source import (
    ACTIONS,
    EnvironmentSource,
    Half,
    results,
)
from roadworthy.inspection.snapshot import preserved
from roadworthy.inspection.walking import walk
from roadworthy.spec.port import BATCH


@dataclass
class Log:
    """What a capture met besides the ports: tensors that were read, lines that draw at random.

    An object apart, because torch.export puts the attributes of a module back.
    """

    reads: list[Read] = field(default_factory=list)
    draws: list[str] = field(default_factory=list)


class EnvironmentStep(torch.nn.Module):
    """One half of a policy step; afterwards `log` tells what it read besides its ports."""

    def __init__(self, source: EnvironmentSource, half: Half, *, symbolic: bool = False) -> None:
        super().__init__()
        self.actor = source.actor
        # In a list, so that an environment that is a module keeps its parameters to itself.
        self._source = [source]
        self._half = half
        tensors = [v for _, v in walk(source.roots) if isinstance(v, torch.Tensor)]
        self._numbers = {n: r for n, r in source.ports.items() if isinstance(r, WRITTEN)}
        registered = {n: r() for n, r in source.ports.items() if n not in self._numbers}
        self._regions = regions(registered, tensors)
        self._names = tuple(source.ports)
        self._rows_at = _rows_at(source)
        source.empty_observations()  # now: what is observed inside of a capture is no value
        self._alike = frozenset(id(t) for t in tensors if symbolic and _alike(t, source.rows))
        self.log = Log()

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        source = self._source[0]
        values = dict(zip(self._names, tensors, strict=True))
        substitution = Substitution(self._regions, values, self._alike, self._rows(values))
        with substitution:
            for name, number in self._numbers.items():
                number.write_traced(values[name])
            # A call of torch, so that a tensor of the environment is seen as its stand-in.
            outputs, memory = results(source, self._half, torch.clone)
            if self._half == source.substep:
                outputs |= self._zeros(outputs, values)
        self.log.reads = list(substitution.reads.values())
        self.log.draws = substitution.draws
        return (*outputs.values(), *memory.values())

    def _rows(self, values: dict[str, torch.Tensor]) -> Any:
        """How many environments the graph is captured for: a number, or a symbol."""
        if self._rows_at is None:
            return None
        port, axis = self._rows_at
        return values[port].shape[axis]

    def _zeros(
        self, outputs: dict[str, torch.Tensor], values: dict[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """Zeros for actions and observations between two decisions, for as many rows as come."""
        rows = self._rows(values)
        if rows is None:
            return {}
        names = (ACTIONS, *self._source[0].empty_observations())
        empty = {name: outputs[name] for name in names}
        return {name: each.new_zeros((rows, *each.shape[1:])) for name, each in empty.items()}


def _alike(tensor: torch.Tensor, rows: int) -> bool:
    """Whether the tensor has one row for each environment, and all rows are equal."""
    if tensor.ndim == 0 or tensor.shape[0] != rows:
        return False
    return bool(torch.equal(tensor, tensor[:1].expand_as(tensor)))


def _rows_at(source: EnvironmentSource) -> tuple[str, int] | None:
    """A port, and its axis, that tells how many environments there are."""
    for name, read in source.ports.items():
        shape = source.shape(read(), symbolic=True)
        if BATCH in shape:
            return name, shape.index(BATCH)
    return None


@dataclass(frozen=True, eq=False)
class CapturedHalf:
    """The graph of one half of a policy step, and what it met besides its ports."""

    graph: torch.export.ExportedProgram
    reads: list[Read]
    draws: list[str]

    @cached_property
    def reach(self) -> Reach:
        """What of the graph reaches its outputs; asked for more than once."""
        return reach(self.graph)

    def own_constants(self) -> None:
        """Changes the graph to hold copies: the environment's own tensors are about to be put back
        to what they were before prepare_export."""
        constants = self.graph.constants
        for name, value in constants.items():
            if isinstance(value, torch.Tensor):
                constants[name] = value.detach().clone()


def captured_halves(
    source: EnvironmentSource, *, symbolic: bool = False
) -> dict[str, CapturedHalf]:
    """Both halves of a policy step: `step` decides, `substep` only applies."""
    halves = {"step": source.step, "substep": source.substep}
    return {name: _captured(source, half, symbolic) for name, half in halves.items()}


def _captured(source: EnvironmentSource, half: Half, symbolic: bool) -> CapturedHalf:
    batch = torch.export.Dim(BATCH, min=1)
    shapes = tuple(
        {
            axis: batch
            for axis, dim in enumerate(source.shape(read(), symbolic=symbolic))
            if dim == BATCH
        }
        or None
        for read in source.ports.values()
    )
    step = EnvironmentStep(source, half, symbolic=symbolic)
    with preserved(*source.roots.values()), torch.inference_mode(mode=False):
        arguments = tuple(read().detach().clone() for read in source.ports.values())
        try:
            with traceable():
                graph = torch.export.export(
                    step,
                    arguments,
                    dynamic_shapes={"tensors": shapes} if symbolic else None,
                    strict=False,
                    prefer_deferred_runtime_asserts_over_guards=True,
                )
        except Exception as error:  # torch.export raises what it likes
            raise capture_failure(error, type(source.env).__name__) from error
        return CapturedHalf(_on_cpu(graph), step.log.reads, step.log.draws)


def _on_cpu(graph: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The graph with its own copies on the CPU of what the environment keeps on a GPU."""
    held = (*graph.state_dict.values(), *graph.constants.values(), *graph.example_inputs[0])
    if all(each.device.type == "cpu" for each in held if isinstance(each, torch.Tensor)):
        return graph
    moved = move_to_device_pass(graph, "cpu")
    moved.graph_module.recompile()  # the pass leaves its code as it was
    return moved


def set_evaluation_mode(env: ExportableEnvironment, actor: torch.nn.Module) -> None:
    """Changes every module that takes part, registered or not, to evaluation mode.

    And the environment's hooks, to some that do nothing: the step of many adapters needs them.
    """
    register_idle_hooks(env)
    for root in (actor, env, *env.context_manager().modules):
        for _, value in walk(root):
            if isinstance(value, torch.nn.Module):
                value.eval()
