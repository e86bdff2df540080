"""From a source to a Program: study the module, then let torch.export write down its graph."""

from __future__ import annotations

import torch

from roadworthy.capture.borrowed import borrowed
from roadworthy.capture.failures import capture_failure
from roadworthy.capture.recipe import recipe
from roadworthy.capture.source import Source
from roadworthy.capture.study import Study
from roadworthy.capture.traceable import traceable
from roadworthy.program import Program


def capture(source: Source) -> Program:
    """The program of `source`; its module comes back as it was."""
    with borrowed(source):
        study = Study(source)
        return Program(
            signature=study.signature,
            graph=_graph(study),
            recipe=recipe(source, study.slots),
            source_name=f"{type(source.module).__module__}.{type(source.module).__qualname__}",
        )


def _graph(study: Study) -> torch.export.ExportedProgram:
    symbols = {name: torch.export.Dim(name, min=1) for name in study.symbols}
    inputs, memory = study.sized({}), study.fresh_memory({})
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
