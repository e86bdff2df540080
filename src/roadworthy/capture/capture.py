"""From a source to a Program: analyse the module, then let torch.export write down its graph."""

from __future__ import annotations

import torch

from roadworthy.capture.analysis import ModuleAnalysis
from roadworthy.capture.autocast import InFloat32, casts
from roadworthy.capture.detached import data_is_detached, reads_data
from roadworthy.capture.export_mode import analysis_mode
from roadworthy.capture.failures import capture_failure
from roadworthy.capture.failures.explain import classes_of
from roadworthy.capture.memory import Tensors
from roadworthy.capture.probe import random_line, run
from roadworthy.capture.program import Program, source_name
from roadworthy.capture.recipe import recipe
from roadworthy.capture.rows import refuse_changing_rows
from roadworthy.capture.sampling import sampling_of
from roadworthy.capture.source import Source
from roadworthy.capture.state.draws import refuse_draws
from roadworthy.capture.state.hiding import own_code, refuse_hiding
from roadworthy.capture.traceable import traceable
from roadworthy.errors import ExportError, Finding
from roadworthy.errors.lines import quoted_line
from roadworthy.inspection.snapshot import preserved
from roadworthy.inspection.trail import Trail
from roadworthy.spec.signature import Signature


def capture(source: Source) -> Program:
    """The program of `source`; its module comes back as it was."""
    with analysis_mode(source):
        analysis = ModuleAnalysis(source)
        inputs = analysis.sized({})
        eager = _eager_trails(analysis, inputs)
        captured = Trail(only=own_code(eager))
        with analysis.step.watched(captured.followed):
            graph = _graph(analysis, inputs)
        refuse_hiding(eager, captured)
        refuse_changing_rows(graph, type(source.module).__name__)
        refuse_draws(graph, lambda: _drawing_line(analysis, inputs))
        _refuse_frozen_example(graph, _graph(analysis, _others(inputs)), source)
        written, notes = graph, tuple[Finding, ...]()
        if casts(graph):
            written = _graph(analysis, inputs, InFloat32(graph))
            notes = (_cast_note(source),)
        return Program(
            signature=analysis.signature,
            graph=_owned(_even_limits(written)),
            fixes=notes,
            recipe=recipe(source, analysis.slots),
            source_name=source_name(source.module),
            sampling=sampling_of(graph, analysis.signature),
        )


def _cast_note(source: Source) -> Finding:
    return Finding(
        code="RW195",
        severity="note",
        where=type(source.module).__name__,
        what="what it computes under an autocast is computed in float32",
        hint="in the exported program only: your module and your file are unchanged",
    )


def captured_graph(source: Source) -> tuple[Signature, torch.export.ExportedProgram]:
    """The graph alone, from one example: for comparing, not for writing."""
    with analysis_mode(source):
        analysis = ModuleAnalysis(source, assume_pure=True)
        graph = _graph(analysis, analysis.sized({}))
        return analysis.signature, _owned(_even_limits(graph))


def _even_limits(graph: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Changes the graph: `x.clamp(0, 0.5)` becomes `x.clamp(0.0, 0.5)`, which says the same.

    torch.onnx makes a tensor of the limit that is whole, finds no clamp for the pair, and gives up.
    """
    clamps = (torch.ops.aten.clamp.default, torch.ops.aten.clip.default)
    for node in graph.graph.nodes:
        limits = node.args[1:]
        if node.target in clamps and any(isinstance(each, float) for each in limits):
            even = (float(each) if isinstance(each, int) else each for each in limits)
            node.args = (node.args[0], *even)
    return graph


def _owned(graph: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Changes the graph: its weights and constants are copies of its own.

    Those of the module go back to their device when export mode ends, and may be trained on.
    """
    for held in (graph.state_dict, graph.constants):
        for name, value in held.items():
            if isinstance(value, torch.nn.Parameter):
                held[name] = torch.nn.Parameter(value.detach().clone(), requires_grad=False)
            elif isinstance(value, torch.Tensor):
                held[name] = value.detach().clone()
    return graph


def _eager_trails(analysis: ModuleAnalysis, inputs: Tensors) -> list[Trail]:
    """The ways of two calls through the user's code: what is built once, the second finds there."""
    trails = [Trail(), Trail()]
    with preserved(analysis.source.module):
        for trail in trails:
            with trail.followed():
                run(analysis.step, inputs, analysis.fresh_memory({}))
    return trails


def _drawing_line(analysis: ModuleAnalysis, inputs: Tensors) -> str:
    line = random_line(analysis.step, inputs, analysis.fresh_memory({}))
    return line or type(analysis.source.module).__name__


def _others(inputs: Tensors) -> Tensors:
    """The example with other values of the same kind."""
    return {
        name: value * 0.5 + 0.25 if value.is_floating_point() else value.clone().flip(0)
        for name, value in inputs.items()
    }


def _refuse_frozen_example(
    one: torch.export.ExportedProgram, other: torch.export.ExportedProgram, source: Source
) -> None:
    """Two captures from different example values must be the same graph."""
    same = one.graph_module.code == other.graph_module.code and all(
        bool(torch.isclose(value, other.constants[name], rtol=0, atol=0, equal_nan=True).all())
        for name, value in one.constants.items()
        if isinstance(value, torch.Tensor)
    )
    if not same:
        raise ExportError(
            "two examples gave two different graphs: a value of the example is frozen into the "
            "graph",
            code="RW125",
            where=type(source.module).__name__,
            hint="compute with torch alone: look for .numpy(), .data, .tolist(), a global that "
            "it writes",
        )


def _graph(
    analysis: ModuleAnalysis, inputs: Tensors, step: torch.nn.Module | None = None
) -> torch.export.ExportedProgram:
    symbols = {name: torch.export.Dim(name, min=1) for name in analysis.symbols}
    memory = analysis.fresh_memory({})
    declared = [port.shape for port in analysis.signature.inputs]
    declared += [each.shape for each in analysis.signature.memory]
    shapes = tuple(
        {axis: symbols[dim] for axis, dim in enumerate(shape) if isinstance(dim, str)} or None
        for shape in declared
    )
    arguments = (
        *(inputs[name] for name in analysis.composed.input_names),
        *(memory[name] for name in analysis.composed.memory_names),
    )

    def captured() -> torch.export.ExportedProgram:
        with traceable():
            return torch.export.export(
                step or analysis.step,
                arguments,
                dynamic_shapes={"tensors": shapes},
                strict=False,
                # Guards that hold for every size, but that the solver cannot prove, are no
                # reason to refuse; sizes are tried on the result.
                prefer_deferred_runtime_asserts_over_guards=True,
            )

    module = analysis.source.module
    try:
        try:
            graph = captured()
        except Exception as error:
            if not reads_data(error, classes_of(module)):
                raise
            with data_is_detached():
                graph = captured()
    except Exception as error:  # torch.export raises what it likes, user errors included
        raise capture_failure(error, type(module).__name__, module) from error
    _refuse_branches(graph, module)
    return graph


def _refuse_branches(graph: torch.export.ExportedProgram, module: torch.nn.Module) -> None:
    """An error for `torch.cond`: no target chooses a branch while it runs."""
    for node in graph.graph.nodes:
        if node.target is torch.ops.higher_order.cond:
            raise ExportError(
                "torch.cond runs one of two functions, for all rows at once, by the value of a "
                "tensor; an artifact computes the same for every value",
                code="RW103",
                where=quoted_line(node.stack_trace or "") or type(module).__name__,
                hint="compute both sides and choose, row by row: torch.where(condition, a, b)",
            )
