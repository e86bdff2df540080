"""The captured graph as a yardstick: one step in PyTorch's own precision, and in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils._pytree import tree_map

from roadworthy.capture.capture import captured_graph
from roadworthy.capture.export_mode import one_thread
from roadworthy.errors import RoadworthyError
from roadworthy.originals.original import Yardstick
from roadworthy.program import Program
from roadworthy.source import Source
from roadworthy.spec.port import Array, Memory, Port
from roadworthy.spec.signature import Signature
from roadworthy.spec.stepping import Arrays

_aten = torch.ops.aten
# What enters these along its last axis is what a choice is made of (as in `choosing`).
_CHOICES = (_aten.argmax.default, _aten.max.dim, _aten.amax.default)
# Says that a value has the dtype which it had when it was captured.
_ASSERTS = (_aten._assert_tensor_metadata.default,)
_EXACT = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


def yardstick(source: Source, program: Program | None, signature: Signature) -> Yardstick | None:
    """The yardstick of a module; None where its graph is not one of this signature."""
    if program is not None:
        captured, graph = program.signature, program.graph
    else:
        try:
            captured, graph = captured_graph(source)
        except RoadworthyError:  # it was captured by other means, such as repairs
            return None
    if _ports(captured) != _ports(signature) or signature.clock:
        return None
    return GraphYardstick(signature, graph)


def _ports(signature: Signature) -> list[Any]:
    ports: list[Port | Memory] = [*signature.inputs, *signature.memory, *signature.outputs]
    return [(each.name, each.dtype, each.shape) for each in ports]


class GraphYardstick:
    """Runs one graph in two precisions, node by node."""

    def __init__(self, signature: Signature, program: torch.export.ExportedProgram) -> None:
        self.inexact = ""
        self._signature = signature
        self._module = program.graph_module
        self._specs = program.graph_signature
        self._lifted = list(_lifted(program))
        self._doubles: list[Any] | None = None

    def rounded(self, inputs: Mapping[str, Array], memory: Mapping[str, Array]) -> Arrays:
        return self._run(_Recording, self._lifted, inputs, memory)

    def exact(self, inputs: Mapping[str, Array], memory: Mapping[str, Array]) -> Arrays | None:
        if self.inexact:
            return None
        if self._doubles is None:
            self._doubles = [_double(each) for each in self._lifted]
        try:
            with _default_dtype(torch.float64):
                return self._run(_Exact, self._doubles, inputs, memory)
        except Exception as error:  # an operator that has no float64, or a size that it depends on
            self.inexact = f"{type(error).__name__}: {error}".splitlines()[0]
            return None

    def _run(
        self,
        interpreter: type[_Recording],
        lifted: list[Any],
        inputs: Mapping[str, Array],
        memory: Mapping[str, Array],
    ) -> Arrays:
        values = [inputs[port.name] for port in self._signature.inputs]
        values += [memory[each.name] for each in self._signature.memory]
        arguments = [torch.from_numpy(np.array(value)) for value in values]
        recorder = interpreter(self._module)
        # What a graph writes into, it must write into a copy.
        held = [each.clone() if isinstance(each, torch.Tensor) else each for each in lifted]
        with torch.no_grad(), one_thread():
            results = recorder.run(*held, *recorder.converted(arguments))
        returned = [
            result
            for spec, result in zip(self._specs.output_specs, results, strict=True)
            if spec.kind is OutputKind.USER_OUTPUT
        ]
        names = [port.name for port in self._signature.outputs]
        names += [f"memory {each.name}" for each in self._signature.memory]
        named = dict(zip(names, returned, strict=True))
        named |= {f"logits {index}": each for index, each in enumerate(recorder.logits)}
        return {name: value.detach().numpy().copy() for name, value in named.items()}


class _Recording(torch.fx.Interpreter):
    """Runs a graph as it was captured and keeps what enters each choice."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self._chosen_from: dict[torch.fx.Node, torch.Tensor] = {}

    def converted(self, values: Any) -> Any:
        """Values as this interpreter computes with them."""
        return values

    @property
    def logits(self) -> list[torch.Tensor]:
        return list(self._chosen_from.values())

    def run_node(self, n: torch.fx.Node) -> Any:
        if n.target in _CHOICES and isinstance(n.args[0], torch.fx.Node):
            self._keep(n.args[0], self.env[n.args[0]], n)
        return super().run_node(n)

    def _keep(self, entering: torch.fx.Node, value: torch.Tensor, choice: torch.fx.Node) -> None:
        dim = choice.args[1] if len(choice.args) > 1 else choice.kwargs.get("dim")
        dim = dim[0] if isinstance(dim, (tuple, list)) and len(dim) == 1 else dim
        last = dim in (-1, value.ndim - 1) and value.ndim > 1
        if last and value.is_floating_point():
            self._chosen_from.setdefault(entering, value.clone())


class _Exact(_Recording):
    """Runs a graph with every float in float64, whatever the graph says."""

    def converted(self, values: Any) -> Any:
        return tree_map(_double, values)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target in _ASSERTS:
            return None
        args, kwargs = tree_map(_dtype, (args, kwargs))
        return super().call_function(target, args, kwargs)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = super().get_attr(target, args, kwargs)
        if isinstance(value, torch.fx.GraphModule):  # a branch, or the body of a loop
            inside: Callable[..., Any] = type(self)(value).run
            return inside
        return _double(value)


def _double(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype in _EXACT:
        return value.detach().to(_EXACT[value.dtype])
    return value


def _dtype(value: Any) -> Any:
    return _EXACT.get(value, value) if isinstance(value, torch.dtype) else value


def _lifted(program: torch.export.ExportedProgram) -> Iterator[Any]:
    """Parameters, buffers and constants on the CPU, in the order in which the graph takes them."""
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            continue
        assert spec.target is not None
        held = program.state_dict.get(spec.target)
        value = program.constants[spec.target] if held is None else held
        yield value.detach().cpu() if isinstance(value, torch.Tensor) else value


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """What a graph makes without naming a dtype, such as zeros or a quotient of whole numbers."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
