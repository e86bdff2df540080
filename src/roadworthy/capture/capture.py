"""From a source to a Program: study the module, then let torch.export write down its graph."""

from __future__ import annotations

import torch

from roadworthy.capture.borrowed import borrowed
from roadworthy.capture.failures import capture_failure
from roadworthy.capture.memory import Tensors
from roadworthy.capture.recipe import recipe
from roadworthy.capture.source import Source
from roadworthy.capture.study import Study
from roadworthy.capture.traceable import traceable
from roadworthy.errors import ExportError
from roadworthy.program import Program


def capture(source: Source) -> Program:
    """The program of `source`; its module comes back as it was."""
    with borrowed(source):
        study = Study(source)
        inputs = study.sized({})
        graph = _graph(study, inputs)
        _refuse_frozen_example(graph, _graph(study, _others(inputs)), source)
        return Program(
            signature=study.signature,
            graph=graph,
            recipe=recipe(source, study.slots),
            source_name=f"{type(source.module).__module__}.{type(source.module).__qualname__}",
        )


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
            "another example gives another graph: the values of the example became part of it",
            code="RW125",
            where=type(source.module).__name__,
            hint="compute from the input with torch alone; look for NumPy, .data and .tolist()",
        )


def _graph(study: Study, inputs: Tensors) -> torch.export.ExportedProgram:
    symbols = {name: torch.export.Dim(name, min=1) for name in study.symbols}
    memory = study.fresh_memory({})
    declared = [port.shape for port in study.signature.inputs]
    declared += [each.shape for each in study.signature.memory]
    shapes = tuple(
        {axis: symbols[dim] for axis, dim in enumerate(shape) if isinstance(dim, str)} or None
        for shape in declared
    )
    arguments = (
        *(inputs[name] for name in study.composed.input_names),
        *(memory[name] for name in study.composed.memory_names),
    )
    try:
        with traceable():
            return torch.export.export(
                study.step,
                arguments,
                dynamic_shapes={"tensors": shapes},
                strict=False,
                # Guards that hold for every size, but that the solver cannot prove, are no
                # reason to refuse; sizes are tried on the result.
                prefer_deferred_runtime_asserts_over_guards=True,
            )
    except Exception as error:  # torch.export raises what it likes, user errors included
        module = study.source.module
        raise capture_failure(error, type(module).__name__, module) from error
