"""The captured graph as a yardstick: one step in PyTorch's own precision, and in float64."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, suppress
from typing import Any

import numpy as np
import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils._pytree import tree_map

from roadworthy.capture.capture import captured_graph
from roadworthy.capture.export_mode import one_thread
from roadworthy.errors import RoadworthyError
from roadworthy.originals.original import NoYardstick, Yardstick
from roadworthy.program import Program
from roadworthy.source import Source
from roadworthy.spec.port import Array, Memory, Port
from roadworthy.spec.signature import Signature
from roadworthy.spec.stepping import Arrays

_aten = torch.ops.aten
# What enters these along its last axis is what a choice is made of (as in `choosing`).
_CHOICES = (_aten.argmax.default, _aten.max.dim, _aten.amax.default)
# A little more or less of what enters these makes another result altogether.
_TURNING = (
    _aten.argmax.default, _aten.argmin.default, _aten.max.dim, _aten.min.dim,
    _aten.topk.default, _aten.sort.default, _aten.sort.stable, _aten.argsort.default,
    _aten.round.default, _aten.round.decimals, _aten.floor.default, _aten.ceil.default,
    _aten.trunc.default, _aten.sign.default,
)  # fmt: skip
# Where these are all that there is, nothing turns anywhere: what most networks are made of.
_SMOOTH = frozenset({
    "add", "addmm", "cat", "celu", "elu", "gelu", "linear", "matmul", "mm", "mul", "permute",
    "relu", "reshape", "selu", "sigmoid", "silu", "softplus", "sub", "t", "tanh", "transpose",
    "view",
})  # fmt: skip
# What gives a value another dtype.
_CASTS = (_aten._to_copy.default, _aten.to.dtype, torch.ops.prims.convert_element_type.default)
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
    captured, graph = (None, None) if program is None else (program.signature, program.graph)
    if program is None or program.fixes:
        # What was repaired may round more finely than the original, whose rounding is the measure.
        with suppress(RoadworthyError):  # it was captured by other means, such as repairs
            captured, graph = captured_graph(source)
    if captured is None or graph is None:
        return None
    if _ports(captured) != _ports(signature) or signature.clock:
        return None
    return GraphYardstick(signature, graph)


def _ports(signature: Signature) -> list[Any]:
    ports: list[Port | Memory] = [*signature.inputs, *signature.memory, *signature.outputs]
    return [(each.name, each.dtype, each.shape) for each in ports]


# What may turn is moved by shares of a longest step: the exponent of two of the shortest share.
_SMALLEST_SHARE = -5.0


class GraphYardstick:
    """Runs one graph in two precisions, node by node."""

    def __init__(self, signature: Signature, program: torch.export.ExportedProgram) -> None:
        self.inexact = ""
        self._signature = signature
        self._module = program.graph_module
        self._specs = program.graph_signature
        self._lifted = list(_lifted(program))
        called = [node.target for node in program.graph.nodes if node.op == "call_function"]
        self.turning = any(target in _TURNING for target in called)
        self.smooth = all(_name(target) in _SMOOTH for target in called)
        self._chooses = any(target in _CHOICES for target in called)
        self.quantities = frozenset(self._cut_from_floats(program.graph))
        # What a graph writes into, it must write into a copy.
        self._writes = any(_mutates(target) for target in called)
        self._doubles: list[Any] | None = None

    def _cut_from_floats(self, graph: torch.fx.Graph) -> Iterator[str]:
        """The outputs of whole numbers that were floats in the node before."""
        (returned,) = (node.args[0] for node in graph.nodes if node.op == "output")
        for name, node in self._named(returned).items():
            if isinstance(node, torch.fx.Node) and node.target in _CASTS:
                before = node.args[0]
                assert isinstance(before, torch.fx.Node)
                if before.meta["val"].is_floating_point() and _is_whole(node.meta["val"]):
                    yield name

    def rounded(self, inputs: Mapping[str, Array], memory: Mapping[str, Array]) -> Arrays:
        recorder = _Recording(self._module) if self._chooses else None
        return self._run(recorder, self._lifted, inputs, memory)

    def turned(
        self, inputs: Mapping[str, Array], memory: Mapping[str, Array], *, ulps: int, seed: int
    ) -> Arrays:
        if not self.turning:
            return self.rounded(inputs, memory)
        turning = _Turning(self._module, self._measured(inputs, memory), ulps, seed)
        return self._run(turning, self._lifted, inputs, memory)

    def _measured(
        self, inputs: Mapping[str, Array], memory: Mapping[str, Array]
    ) -> dict[torch.fx.Node, torch.Tensor]:
        """How far rounding is from the exact value where something may turn, element by element."""
        rounded = _Entering(self._module)
        self._run(rounded, self._lifted, inputs, memory)
        exact = _ExactEntering(self._module)
        if not rounded.found or self._exactly(exact, inputs, memory) is None:
            return {node: torch.zeros_like(value) for node, value in rounded.found.items()}
        apart = {
            node: (value.double() - exact.found[node]).abs().nan_to_num(0, 0, 0)
            for node, value in rounded.found.items()
        }
        # One element may be right by chance: its neighbours tell what is usual.
        return {
            node: torch.maximum(value, value.median()).to(rounded.found[node].dtype)
            for node, value in apart.items()
        }

    def exact(self, inputs: Mapping[str, Array], memory: Mapping[str, Array]) -> Arrays | None:
        return self._exactly(_Exact(self._module), inputs, memory)

    def _exactly(
        self, recorder: _Exact, inputs: Mapping[str, Array], memory: Mapping[str, Array]
    ) -> Arrays | None:
        if self.inexact:
            return None
        if self._doubles is None:
            self._doubles = [_double(each) for each in self._lifted]
        try:
            with _default_dtype(torch.float64):
                return self._run(recorder, self._doubles, inputs, memory)
        except NoYardstick as error:  # an operator that has no float64, or a size it depends on
            self.inexact = str(error)
            return None

    def _run(
        self,
        recorder: _Recording | None,
        lifted: list[Any],
        inputs: Mapping[str, Array],
        memory: Mapping[str, Array],
    ) -> Arrays:
        """One step; without a recorder the graph's own code is run, which is faster."""
        values = [inputs[port.name] for port in self._signature.inputs]
        values += [memory[each.name] for each in self._signature.memory]
        arguments = [torch.from_numpy(np.array(value)) for value in values]
        held = [_copied(each) for each in lifted] if self._writes else lifted
        try:
            with torch.no_grad(), one_thread(), redirect_stderr(io.StringIO()):
                if recorder is None:
                    results = self._module(*held, *arguments)
                else:
                    results = recorder.run(*held, *recorder.converted(arguments))
        except Exception as error:  # torch raises what it likes, and prints the graph
            raise NoYardstick(f"{type(error).__name__}: {error}".splitlines()[0]) from error
        named = self._named(results)
        logits = [] if recorder is None else recorder.logits
        named |= {f"logits {index}": each for index, each in enumerate(logits)}
        return {name: value.detach().numpy().copy() for name, value in named.items()}

    def _named(self, results: Any) -> dict[str, Any]:
        """What the graph returns, by the names of outputs and memories."""
        returned = [
            result
            for spec, result in zip(self._specs.output_specs, results, strict=True)
            if spec.kind is OutputKind.USER_OUTPUT
        ]
        names = [port.name for port in self._signature.outputs]
        names += [f"memory {each.name}" for each in self._signature.memory]
        return dict(zip(names, returned, strict=True))


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
        self._look(n)
        return super().run_node(n)

    def _look(self, choice: torch.fx.Node) -> None:
        entering = choice.args[0] if choice.target in _CHOICES else None
        if not isinstance(entering, torch.fx.Node):
            return
        value = self.env[entering]
        dim = choice.args[1] if len(choice.args) > 1 else choice.kwargs.get("dim")
        dim = dim[0] if isinstance(dim, (tuple, list)) and len(dim) == 1 else dim
        last = dim in (-1, value.ndim - 1) and value.ndim > 1
        if last and value.is_floating_point():
            self._chosen_from.setdefault(entering, value.clone())


class _Entering(_Recording):
    """Keeps what enters each operator that rounding may turn, by its node."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.found: dict[torch.fx.Node, torch.Tensor] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        if n.target in _TURNING and isinstance(n.args[0], torch.fx.Node):
            value = self.env[n.args[0]]
            if value.is_floating_point():
                self.found[n] = value.clone()
        return super().run_node(n)


class _Turning(_Recording):
    """Runs a graph with what enters a choice or a rounding moved up and down at random."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        errors: Mapping[torch.fx.Node, torch.Tensor],
        ulps: int,
        seed: int,
    ) -> None:
        super().__init__(module)
        self._errors = errors
        self._ulps = ulps
        self._generator = torch.Generator().manual_seed(seed)

    def run_node(self, n: torch.fx.Node) -> Any:
        if n not in self._errors:
            return super().run_node(n)
        self._look(n)
        (entering, *others), kwargs = self.fetch_args_kwargs_from_env(n)
        return self.call_function(
            n.target, (self._moved(entering, self._errors[n]), *others), kwargs
        )

    def _moved(self, values: torch.Tensor, error: torch.Tensor) -> torch.Tensor:
        kind = torch.finfo(values.dtype)
        # Of every size: a step that is too long goes past the neighbour, one too short falls back.
        size = torch.rand(values.shape, generator=self._generator) * _SMALLEST_SHARE
        up = torch.rand(values.shape, generator=self._generator) < 0.5
        share = torch.where(up, 1.0, -1.0) * torch.exp2(size)
        # Zeros are moved too: a tie of zeros is one.
        unit = values.abs() * kind.eps + error.clamp(min=kind.tiny)
        return values + self._ulps * share.to(values.dtype) * unit


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


class _ExactEntering(_Exact, _Entering):
    """What enters each operator that rounding may turn, in float64."""


def _is_whole(value: torch.Tensor) -> bool:
    floats = value.is_floating_point() or value.is_complex()
    return not floats and value.dtype != torch.bool


def _name(target: Any) -> str:
    schema = getattr(target, "_schema", None)
    return "" if schema is None else str(schema.name).removeprefix("aten::")


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _mutates(target: Any) -> bool:
    """Whether an operator may write into its arguments; of what is no operator nothing is known."""
    return not isinstance(target, torch._ops.OpOverload) or target._schema.is_mutable


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
        held_anywhere = isinstance(value, torch.Tensor) and not value.is_meta
        yield value.detach().cpu() if held_anywhere else value


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """What a graph makes without naming a dtype, such as zeros or a quotient of whole numbers."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
