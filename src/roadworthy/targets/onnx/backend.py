"""ONNX: one file, weights inside, names as declared, the same bytes every time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import torch

from roadworthy.capture.program import Program
from roadworthy.errors import BatchSpecialised, BundleError, ExportError
from roadworthy.errors.quiet import quiet
from roadworthy.runtime.engine import OnnxEngine
from roadworthy.spec.bundle import LINES_KEY, POLICY, SIGNATURE_KEY
from roadworthy.spec.port import Dim, Memory, Port
from roadworthy.spec.signature import Signature
from roadworthy.spec.targets import refuse_other_versions
from roadworthy.targets.backend import Settings
from roadworthy.targets.graphs import ends, of_one_size
from roadworthy.targets.onnx.folding import folded
from roadworthy.targets.onnx.gates import write_whole_sigmoids
from roadworthy.targets.onnx.planes import convolve_planes
from roadworthy.targets.onnx.refusals import (
    Place,
    conversion_failure,
    places,
    refuse_draws,
    runtime_failure,
)
from roadworthy.targets.onnx.torchlib import onnx_program
from roadworthy.targets.onnx.translations import own_translations
from roadworthy.targets.onnx.two_rates import two_rates

# protobuf refuses messages of 2 GiB; weights beyond that would need a second file.
MOST_BYTES = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxBackend:
    """Writes `policy.onnx` with a chosen opset and IR version."""

    settings: Settings = field(default_factory=Settings)
    filename: str = POLICY

    def __post_init__(self) -> None:
        refuse_other_versions(self.settings.opset, self.settings.ir_version)

    @classmethod
    def configured(cls, settings: Settings) -> OnnxBackend:
        return cls(settings=settings)

    def lower(self, program: Program, folder: Path) -> Sequence[Path]:
        model = self._model(program)
        known = places(model)
        refuse_draws(known)
        lines = _lines(model, known)
        _strip(model)
        model.metadata_props.update(program.metadata)
        model.ir_version = self.settings.ir_version
        model.metadata_props[SIGNATURE_KEY] = json.dumps(
            program.signature.to_json(), allow_nan=False
        )
        model.metadata_props[LINES_KEY] = json.dumps(lines, ensure_ascii=False)
        proto = ir.to_proto(model)
        self._check(proto, program.signature, known)
        data = proto.SerializeToString(deterministic=True)
        _refuse_unloadable(data, known)
        path = folder / self.filename
        path.write_bytes(data)
        return [path]

    def line(self, program: Program, node: str) -> str:
        """The user's line that a node of the written file comes from; empty where none is known."""
        return next((each.line for each in places(self._model(program)) if each.name == node), "")

    def _model(self, program: Program) -> ir.Model:
        model = _converted(program.graph, self.settings)
        _name_ports(model, program.signature)
        if program.substep is not None:
            between = _converted(program.substep, self.settings)
            _name_ports(between, program.signature)
            model = two_rates(model, between, program.signature)
        if self.settings.memory_defaults:
            _give_defaults(model.graph, program.signature)
        return model

    def _check(self, proto: onnx.ModelProto, signature: Signature, known: list[Place]) -> None:
        opsets = {entry.domain: entry.version for entry in proto.opset_import}
        opset, ir_version = self.settings.opset, self.settings.ir_version
        if opsets.get("") != opset or proto.ir_version != ir_version:
            raise ExportError(
                f"asked for opset {opset} and IR {ir_version}, "
                f"got opset {opsets.get('')} and IR {proto.ir_version}",
                hint="an operator of the policy cannot be converted: try another "
                "ExportOptions(opset=…)",
            )
        if proto.ByteSize() > MOST_BYTES:
            raise ExportError(
                f"the model has {proto.ByteSize()} bytes, and one ONNX file holds 2 GiB",
                hint="targets=['torch_export'] has no such limit",
            )
        try:
            onnx.checker.check_model(proto, full_check=True)
        except Exception as error:  # checker errors share no narrower base
            raise runtime_failure(f"onnx.checker: {error}", known) from error
        _refuse_other_shapes(proto, signature)


def _converted(graph: torch.export.ExportedProgram, settings: Settings) -> ir.Model:
    try:
        with quiet():
            prepared = _prepared(graph, settings.opset)
            own = own_translations(doubles=_holds_doubles(prepared))
            translations = {**own, **settings.translations}
            model = onnx_program(prepared, settings.opset, translations).model
            _adopt_constants(model.graph)
            convolve_planes(model.graph)
            if settings.whole_sigmoids:
                write_whole_sigmoids(model.graph)
            return model
    except Exception as error:  # torch.onnx raises what it likes
        raise conversion_failure(error) from error


def _holds_doubles(graph: torch.export.ExportedProgram) -> bool:
    values = (node.meta.get("val") for node in graph.graph.nodes)
    return any(isinstance(v, torch.Tensor) and v.dtype == torch.float64 for v in values)


def _adopt_constants(graph: ir.Graph) -> None:
    """Changes the graph: constants that a rewriting left without a home are its initializers.

    onnxscript fuses Min and Max into Clip and names the limits after what is clipped: two clips of
    one value have limits of the same names, and one pair is not registered.
    """
    for node in graph.all_nodes():
        for value in node.inputs:
            if value is None or value.const_value is None or value.producer() is not None:
                continue
            if value.is_graph_input() or graph.initializers.get(value.name or "") is value:
                continue
            name, count = value.name or "constant", 0
            while name in graph.initializers:
                count += 1
                name = f"{value.name}_{count}"
            value.name = name
            graph.register_initializer(value)


def _prepared(graph: torch.export.ExportedProgram, opset: int) -> torch.export.ExportedProgram:
    """The graph without operators that ONNX lacks, or that onnxruntime has but does not run.

    Opset 23 brings Attention, whose CPU kernel refuses a mask that is to be broadcast.
    """
    graph = folded(graph)
    attention = torch.ops.aten.scaled_dot_product_attention.default
    if opset < 23 or all(node.target is not attention for node in graph.graph.nodes):
        return graph
    plain: torch.export.ExportedProgram = graph.run_decompositions({attention: _plain_attention})
    return plain


def _plain_attention(*args: Any, **kwargs: Any) -> torch.Tensor:
    result: torch.Tensor = torch.ops.aten._scaled_dot_product_attention_math(*args, **kwargs)[0]
    return result


def _name_ports(model: ir.Model, signature: Signature) -> None:
    """Graph inputs and outputs as the signature names them; each output a value of its own."""
    graph = model.graph
    ins, outs = ends(signature, len(graph.inputs), len(graph.outputs))
    _give_own_types(graph, [port.dtype for port in outs])
    _give_own_values(graph)
    taken = {_graph_name(port, "input") for port in ins} | {_graph_name(p, "output") for p in outs}
    for node in graph.all_nodes():
        for value in node.outputs:
            if value.name in taken:
                value.name = f"{value.name}_value"
    for name in taken & set(graph.initializers):
        graph.initializers[name].name = f"{name}_value"
    # Two rounds: a name that is given must not meet one that is about to go.
    values = [*graph.inputs, *graph.outputs]
    for index, value in enumerate(values):
        value.name = f"port_{index}"
    for value, port in zip(graph.inputs, ins, strict=True):
        value.name = _graph_name(port, "input")
        value.shape = _symbolic(value, port)
    for value, port in zip(graph.outputs, outs, strict=True):
        value.name = _graph_name(port, "output")
        value.shape = _symbolic(value, port)


def _give_own_types(graph: ir.Graph, dtypes: Sequence[str]) -> None:
    """Changes the graph: an output has the precision that PyTorch rounds it to.

    torch.onnx computes sums of half floats in float32, and leaves the result so.
    """
    for index, (value, name) in enumerate(zip(graph.outputs, dtypes, strict=True)):
        wanted = ir.DataType.from_numpy(np.dtype(name))
        if value.dtype is None or value.dtype == wanted:
            continue
        if not (value.dtype.is_floating_point() and wanted.is_floating_point()):
            raise ExportError(
                f"the graph gives {value.dtype.numpy()}, and PyTorch {name}",
                where=value.name or "",
                hint=f"say what it is in forward: .to(torch.{name})",
            )
        cast = ir.Value(name=f"own_type_{index}", type=ir.TensorType(wanted), shape=value.shape)
        graph.append(ir.node("Cast", [value], attributes={"to": wanted}, outputs=[cast]))
        graph.outputs[index] = cast


def _give_own_values(graph: ir.Graph) -> None:
    """An Identity for each output that is an input, a constant or another output as well."""
    seen: set[int] = set()
    for index, value in enumerate(graph.outputs):
        if id(value) in seen or value.producer() is None:
            copy = ir.Value(name=f"own_{index}", type=value.type, shape=value.shape)
            graph.append(ir.node("Identity", [value], outputs=[copy]))
            graph.outputs[index] = copy
        seen.add(id(graph.outputs[index]))


def _give_defaults(graph: ir.Graph, signature: Signature) -> None:
    """Changes the graph: memory that begins otherwise than with zeros has that as its default.

    An input that is an initializer as well: what is not passed begins with it.
    """
    inputs = {value.name: value for value in graph.inputs}
    for memory in signature.memory:
        if all(isinstance(dim, int) for dim in memory.shape) and memory.fresh(1).any():
            value = inputs[memory.input]
            value.const_value = ir.tensor(memory.fresh(1), name=memory.input)
            graph.register_initializer(value)


def _graph_name(port: Port | Memory, side: str) -> str:
    if isinstance(port, Memory):
        return port.input if side == "input" else port.output
    return port.name


def _symbolic(value: ir.Value, port: Port | Memory) -> ir.Shape:
    """The shape with the signature's names for its symbolic sizes (`batch`, not `s67`)."""
    own: list[Dim | None] = [
        dim if isinstance(dim, int) else dim.value for dim in (value.shape or ())
    ]
    if len(own) != len(port.shape):
        return ir.Shape(own)
    named = [
        dim if isinstance(dim, str) and not isinstance(size, int) else size
        for dim, size in zip(port.shape, own, strict=True)
    ]
    return ir.Shape(named)


def _refuse_unloadable(data: bytes, known: list[Place]) -> None:
    try:
        OnnxEngine(data)
    except BundleError as error:
        raise runtime_failure(error.findings[0].what, known) from error


def _refuse_other_shapes(proto: onnx.ModelProto, signature: Signature) -> None:
    """An error for every port whose written shape is not the declared one."""
    written = {value.name: value for value in (*proto.graph.input, *proto.graph.output)}
    expected = [(p.name, p.shape) for p in (*signature.inputs, *signature.outputs)]
    for memory in signature.memory:
        expected += [(memory.input, memory.shape), (memory.output, memory.shape)]
    findings = []
    for name, shape in expected:
        dims = written[name].type.tensor_type.shape.dim
        got = tuple(dim.dim_param or dim.dim_value for dim in dims)
        if got != shape:
            findings.append(of_one_size(name, shape, got))
    if findings:
        raise BatchSpecialised(findings=findings)


def _lines(model: ir.Model, known: list[Place]) -> dict[str, str]:
    """Where each value is computed, by its name: `policy.py:12`, or `layer 0 (Linear)`.

    The code of the line stays at home: a file travels further than its source.
    """
    found: dict[str, str] = {}
    for node, place in zip(model.graph.all_nodes(), known, strict=True):
        line = place.line if place.line.startswith("layer ") else place.line.partition(" (")[0]
        found |= {value.name: line for value in node.outputs if value.name and line}
    return found


def _strip(model: ir.Model) -> None:
    """No notes of the exporter: they hold paths of this machine and change from run to run."""
    graph = model.graph
    model.producer_name, model.producer_version, model.doc_string = "roadworthy", "", None
    model.metadata_props.clear()
    graph.name, graph.doc_string = "policy", None
    graph.metadata_props.clear()
    for node in graph.all_nodes():
        node.metadata_props.clear()
        node.doc_string = None
        for value in node.outputs:
            value.metadata_props.clear()
            value.doc_string = None
    for value in (*graph.inputs, *graph.initializers.values()):
        value.metadata_props.clear()
        value.doc_string = None
