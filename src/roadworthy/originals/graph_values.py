"""Every value inside the original's graph, computed by PyTorch, node by node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from roadworthy.capture.capture import capture
from roadworthy.capture.export_mode import export_mode
from roadworthy.errors import RoadworthyError
from roadworthy.lines import quoted_line
from roadworthy.originals.original import TorchValue
from roadworthy.quiet import quiet
from roadworthy.source import Source
from roadworthy.spec.port import Array
from roadworthy.spec.signature import Signature


def graph_values(
    source: Source, signature: Signature, inputs: Mapping[str, Array], memory: Mapping[str, Array]
) -> dict[str, TorchValue]:
    """One step, under the names that an ONNX file of it uses; empty where it has no such graph."""
    if signature.clock:
        return {}
    try:
        graph = capture(source).graph
        with quiet():
            exported = torch.onnx.export(graph, dynamo=True, verbose=False)
    except RoadworthyError:  # the original cannot be captured
        return {}
    except Exception:  # an operator that only the export's own translations knew
        return {}
    program = None if exported is None else exported.exported_program
    assert program is not None
    arguments = [torch.from_numpy(np.array(inputs[port.name])) for port in signature.inputs]
    arguments += [torch.from_numpy(np.array(memory[each.name])) for each in signature.memory]
    with export_mode(source), torch.no_grad():
        recorder = _Recorder(program.graph_module)
        recorder.run(*_lifted(program), *arguments)
    outputs = program.graph.find_nodes(op="output")[0].args[0]
    ports = [port.name for port in signature.outputs]
    ports += [each.output for each in signature.memory]
    renamed = {node.name: port for node, port in zip(outputs, ports, strict=True)}
    return {renamed.get(name, name): value for name, value in recorder.found.items()}


class _Recorder(torch.fx.Interpreter):
    """Runs a graph and keeps every tensor by the name of its node."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.found: dict[str, TorchValue] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, torch.Tensor) and n.op == "call_function":
            where = quoted_line(n.meta.get("stack_trace") or "")
            # NumPy has no bfloat16.
            value = result.float() if result.dtype == torch.bfloat16 else result
            self.found[n.name] = TorchValue(value.detach().numpy().copy(), where)
        return result


def _lifted(program: torch.export.ExportedProgram) -> list[Any]:
    """Parameters, buffers and constants, in the order in which the graph takes them."""
    kinds = torch.export.graph_signature.InputKind
    found: list[Any] = []
    for spec in program.graph_signature.input_specs:
        if spec.kind is kinds.USER_INPUT:
            continue
        assert spec.target is not None
        held = program.state_dict.get(spec.target)
        found.append(program.constants[spec.target] if held is None else held)
    return found
