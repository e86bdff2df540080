"""Every value inside the original's graph, computed by PyTorch, node by node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from roadworthy.capture.capture import capture
from roadworthy.capture.export_mode import export_mode
from roadworthy.capture.source import Source
from roadworthy.errors import RoadworthyError
from roadworthy.errors.quiet import quiet
from roadworthy.operators.captured import lifted, line_of
from roadworthy.spec.port import Array
from roadworthy.spec.signature import Signature
from roadworthy.verification.originals.original import TorchValue


def graph_values(
    source: Source, signature: Signature, inputs: Mapping[str, Array], memory: Mapping[str, Array]
) -> dict[str, TorchValue]:
    """One step, under the names that an ONNX file of it uses; empty where it has no such graph."""
    if signature.clock:
        return {}
    try:
        graph = capture(source).graph
    except RoadworthyError:  # the original cannot be captured
        return {}
    arguments = [torch.from_numpy(np.array(inputs[port.name])) for port in signature.inputs]
    arguments += [torch.from_numpy(np.array(memory[each.name])) for each in signature.memory]
    ports = [port.name for port in signature.outputs]
    ports += [each.output for each in signature.memory]
    with export_mode(source), torch.no_grad():
        captured = _recorded(graph, arguments, ports)
        taken_apart = _recorded(_taken_apart(graph), arguments, ports)
    # A file has the names of the one or of the other: what is another value in each is neither's.
    return {
        name: value
        for name, value in {**taken_apart, **captured}.items()
        if name not in taken_apart or name not in captured or _same(value, taken_apart[name])
    }


def _taken_apart(graph: torch.export.ExportedProgram) -> torch.export.ExportedProgram | None:
    """The graph as torch.onnx decomposes it; None where only the export's own translations can."""
    try:
        with quiet():
            exported = torch.onnx.export(graph, dynamo=True, verbose=False)
    except Exception:  # torch.onnx raises what it likes
        return None
    return None if exported is None else exported.exported_program


def _recorded(
    program: torch.export.ExportedProgram | None, arguments: list[torch.Tensor], ports: list[str]
) -> dict[str, TorchValue]:
    if program is None:
        return {}
    recorder = _ValueRecorder(program.graph_module)
    try:
        recorder.run(*lifted(program).values(), *arguments)
    except Exception:  # sizes that it was not captured for, and whatever an operator raises
        return {}
    outputs = program.graph.find_nodes(op="output")[0].args[0]
    renamed = {node.name: port for node, port in zip(outputs, ports, strict=True)}
    return {renamed.get(name, name): value for name, value in recorder.found.items()}


def _same(one: TorchValue, other: TorchValue) -> bool:
    floats = one.value.dtype.kind == "f"
    return np.array_equal(one.value, other.value, equal_nan=floats)


class _ValueRecorder(torch.fx.Interpreter):
    """Runs a graph and keeps every tensor by the name of its node."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.found: dict[str, TorchValue] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, torch.Tensor) and n.op == "call_function":
            where = line_of(n)
            # NumPy has no bfloat16.
            value = result.float() if result.dtype == torch.bfloat16 else result
            self.found[n.name] = TorchValue(value.detach().numpy().copy(), where)
        return result
