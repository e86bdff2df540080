"""The captured graph as a yardstick: one step in PyTorch's own precision, and in float64."""

from __future__ import annotations

import copy
import io
import types
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.export.graph_signature import OutputKind
from torch.utils.flop_counter import FlopCounterMode

from roadworthy.capture.capture import captured_graph
from roadworthy.capture.devices import new_tensors_are_here
from roadworthy.capture.export_mode import one_thread
from roadworthy.capture.program import Program
from roadworthy.capture.source import Source
from roadworthy.errors import RoadworthyError
from roadworthy.operators.asking import writes
from roadworthy.operators.captured import lifted, name_of, reached, varying
from roadworthy.operators.table import known
from roadworthy.spec.port import Array, Memory, Port
from roadworthy.spec.run import Key, Values, numbered, remembered
from roadworthy.spec.signature import Signature
from roadworthy.verification.originals.graph_code import GraphCode
from roadworthy.verification.originals.interpreting import (
    Entering,
    Exact,
    ExactEntering,
    Recording,
    Shaking,
    Turning,
    chooses,
    closing_transforms,
    double,
    turns,
)  # fmt: skip
from roadworthy.verification.originals.original import NoYardstick, TurningErrors, Yardstick

_aten = torch.ops.aten
# What gives a value another dtype.
_CASTS = (_aten._to_copy.default, _aten.to.dtype, torch.ops.prims.convert_element_type.default)


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


@dataclass(frozen=True, slots=True, eq=False)
class _Errors(TurningErrors):
    """By the node that may turn, for each element of what enters it.

    `before` is what entered the nodes from there on, at these `values` of inputs and memory.
    """

    found: Mapping[torch.fx.Node, torch.Tensor]
    before: Mapping[torch.fx.Node, Any]
    values: list[Array]

    def at(self, values: list[Array]) -> bool:
        """Whether these are the very values: whole numbers are not moved."""
        pairs = zip(self.values, values, strict=True)
        return all(one is each or _equal(one, each) for one, each in pairs)


class GraphYardstick:
    """Runs one graph in two precisions, node by node."""

    def __init__(self, signature: Signature, program: torch.export.ExportedProgram) -> None:
        self.inexact = ""
        self._signature = signature
        self._module = _without_assertions(program.graph_module)
        self._specs = program.graph_signature
        self._lifted = [_on_cpu(each) for each in lifted(program).values()]
        called = [node.target for node in program.graph.nodes if node.op == "call_function"]
        self.turning = any(map(turns, called))
        varies = varying(program)
        self.smooth = all(_is_smooth(node, varies) for node in varies)
        self._behind = _behind_turns(self._module.graph) if self.turning else frozenset()
        self._chooses = any(map(chooses, called))
        self.quantities = frozenset(self._cut_from_floats(program.graph))
        # What a graph writes into, it must write into a copy.
        self._written = _written(program)
        # Choices are recorded on the way, by an interpreter.
        module = program.graph_module
        self._code = GraphCode(module) if GraphCode.fits(module) and not self._chooses else None
        self._doubles: list[Any] | None = None
        self._work: int | None = None

    def work(self, inputs: Mapping[str, Array], memory: Mapping[str, Array]) -> int:
        if self._work is None:
            with FlopCounterMode(display=False) as counter:
                self._run(None, self._lifted, inputs, memory)
            self._work = counter.get_total_flops()
        return self._work

    def _cut_from_floats(self, graph: torch.fx.Graph) -> Iterator[Key]:
        """The outputs of whole numbers that were floats in the node before."""
        (returned,) = (node.args[0] for node in graph.nodes if node.op == "output")
        for name, node in self._named(returned).items():
            if isinstance(node, torch.fx.Node) and node.target in _CASTS:
                before = node.args[0]
                assert isinstance(before, torch.fx.Node)
                if before.meta["val"].is_floating_point() and _is_whole(node.meta["val"]):
                    yield name

    def rounded(self, inputs: Mapping[str, Array], memory: Mapping[str, Array]) -> Values:
        recorder = Recording(self._module) if self._chooses else None
        return self._run(recorder, self._lifted, inputs, memory)

    def turned(
        self,
        inputs: Mapping[str, Array],
        memory: Mapping[str, Array],
        *,
        ulps: int,
        seed: int,
        errors: TurningErrors | None = None,
    ) -> Values:
        if not self.turning:
            return self.rounded(inputs, memory)
        if not isinstance(errors, _Errors):
            errors = self.turning_errors(inputs, memory)
        turning = Turning(self._module, errors.found, ulps, seed)
        if errors.before and errors.at(self._values(inputs, memory)):
            turning.begin_behind(self._behind, errors.before)
        return self._run(turning, self._lifted, inputs, memory)

    def turning_errors(self, inputs: Mapping[str, Array], memory: Mapping[str, Array]) -> _Errors:
        rounded = Entering(self._module, self._behind)
        found = self._measured(rounded, inputs, memory)
        return _Errors(found, rounded.before, self._values(inputs, memory))

    def shaken(
        self, inputs: Mapping[str, Array], memory: Mapping[str, Array], *, ulps: int, seed: int
    ) -> Values:
        if self._code is not None:
            return self._run(None, self._lifted, inputs, memory, self._code.shaken(ulps, seed))
        return self._run(Shaking(self._module, ulps, seed), self._lifted, inputs, memory)

    def _measured(
        self, rounded: Entering, inputs: Mapping[str, Array], memory: Mapping[str, Array]
    ) -> dict[torch.fx.Node, torch.Tensor]:
        """How far rounding is from the exact value where something may turn, element by element."""
        self._run(rounded, self._lifted, inputs, memory)
        exact = ExactEntering(self._module)
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

    def exact(self, inputs: Mapping[str, Array], memory: Mapping[str, Array]) -> Values | None:
        recorder = Exact(self._module) if self._code is None else None
        return self._exactly(recorder, inputs, memory)

    def _exactly(
        self, recorder: Exact | None, inputs: Mapping[str, Array], memory: Mapping[str, Array]
    ) -> Values | None:
        if self.inexact:
            return None
        if self._doubles is None:
            self._doubles = [double(each) for each in self._lifted]
        try:
            with _default_dtype(torch.float64):
                if recorder is not None or self._code is None:
                    return self._run(recorder, self._doubles, inputs, memory)
                code = self._code.exact()
                return self._run(None, self._doubles, inputs, memory, code, double)
        except NoYardstick as error:  # an operator that has no float64, or a size it depends on
            self.inexact = str(error)
            return None

    def _run(
        self,
        recorder: Recording | None,
        held: list[Any],
        inputs: Mapping[str, Array],
        memory: Mapping[str, Array],
        code: Callable[..., Any] | None = None,
        convert: Callable[[torch.Tensor], torch.Tensor] = lambda value: value,
    ) -> Values:
        """One step; without a recorder `code` is run, or the graph's own: that is faster."""
        values = self._values(inputs, memory)
        arguments = [torch.from_numpy(np.array(value)) for value in values]
        held = list(held)
        for place in self._written:
            held[place] = _copied(held[place])
        try:
            silent = redirect_stderr(io.StringIO())
            here = new_tensors_are_here()
            with torch.no_grad(), one_thread(), silent, closing_transforms(), here:
                if recorder is None:
                    results = (code or self._module)(*held, *map(convert, arguments))
                else:
                    results = recorder.run(*held, *recorder.converted(arguments))
        except Exception as error:  # torch raises what it likes, and prints the graph
            raise NoYardstick(f"{type(error).__name__}: {error}".splitlines()[0]) from error
        named = self._named(results)
        logits = [] if recorder is None else recorder.logits
        named |= numbered(logits)
        return {name: value.detach().numpy().copy() for name, value in named.items()}

    def _values(self, inputs: Mapping[str, Array], memory: Mapping[str, Array]) -> list[Array]:
        values = [inputs[port.name] for port in self._signature.inputs]
        return values + [memory[each.name] for each in self._signature.memory]

    def _named(self, results: Any) -> dict[Key, Any]:
        """What the graph returns, by the names of outputs and memories."""
        returned = [
            result
            for spec, result in zip(self._specs.output_specs, results, strict=True)
            if spec.kind is OutputKind.USER_OUTPUT
        ]
        names: list[Key] = [port.name for port in self._signature.outputs]
        names += [remembered(each.name) for each in self._signature.memory]
        return dict(zip(names, returned, strict=True))


def _behind_turns(graph: torch.fx.Graph) -> frozenset[torch.fx.Node]:
    """What may turn or choose, and all behind it; empty where it cannot be run by itself.

    It cannot where something is written in place from there on: it would be written twice.
    """
    found: set[torch.fx.Node] = set()
    for node in graph.nodes:
        if node.op == "call_function" and not isinstance(
            node.target, (torch._ops.OpOverload, types.BuiltinFunctionType)
        ):
            return frozenset()  # what has effects of its own, such as the beginning of a vmap
        begins = turns(node.target) or chooses(node.target)
        if begins or node.op == "output" or any(each in found for each in node.all_input_nodes):
            found.add(node)
        if found and node.op == "call_function" and _mutates(node.target):
            return frozenset()
    return frozenset(found)


def _equal(one: Array, other: Array) -> bool:
    return one.dtype.kind != "f" and np.array_equal(one, other)


def _is_whole(value: torch.Tensor) -> bool:
    floats = value.is_floating_point() or value.is_complex()
    return not floats and value.dtype != torch.bool


def _is_smooth(node: torch.fx.Node, varies: Container[torch.fx.Node]) -> bool:
    if node.op != "call_function" or not (node.users or _mutates(node.target)):
        return True  # what is asserted computes nothing
    name = name_of(node.target)
    if name == "div":
        return len(node.args) == 2 and not node.kwargs and node.args[1] not in varies
    # What is no operator computes with sizes, or takes one of several results.
    return known(name).smooth or isinstance(node.target, types.BuiltinFunctionType)


def _without_assertions(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph without what torch.export could not prove about its sizes.

    It asserts such things as that a sequence is not as long as the batch has rows, from the example
    alone: one row would be refused. Whether sizes are right the checks show.
    """
    target = torch.ops.aten._assert_scalar.default
    if not module.graph.find_nodes(op="call_function", target=target):
        return module
    made = copy.deepcopy(module)
    for node in made.graph.find_nodes(op="call_function", target=target):
        made.graph.erase_node(node)
    made.graph.eliminate_dead_code()
    made.recompile()
    return made


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _written(program: torch.export.ExportedProgram) -> list[int]:
    """The places, among all that was lifted, of what the graph may write into.

    Written is what a mutating node takes, and whatever that may be a view of: everything before it,
    up to what is computed and rounded, which has memory of its own. So weights are not copied at
    each run.
    """
    mutating = (n for n in program.graph.nodes if n.op == "call_function" and _mutates(n.target))
    found = reached(
        (entering for node in mutating for entering in node.all_input_nodes),
        lambda node: () if known(name_of(node.target)).rounds else node.all_input_nodes,
    )
    names = {node.name for node in found}
    return [place for place, name in enumerate(lifted(program)) if name in names]


def _mutates(target: object) -> bool:
    """Whether a target may write into its arguments; of what is inside of a branch nothing is
    known."""
    return writes(target) or isinstance(target, torch._ops.HigherOrderOperator)


def _on_cpu(value: Any) -> Any:
    held_anywhere = isinstance(value, torch.Tensor) and not value.is_meta
    return value.detach().cpu() if held_anywhere else value


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """What a graph makes without naming a dtype, such as zeros or a quotient of whole numbers."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
