"""Nodes of a graph become values and statements, at fixed sizes; what is known is folded."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from roadworthy.errors import ExportError
from roadworthy.spec.onnx_graph import Declared, Graph, Node
from roadworthy.spec.port import Array
from roadworthy.targets.c.kernels.panels import PANELS, Panels, Storage
from roadworthy.targets.c.statements import Branch, Statement, Store, natural_order
from roadworthy.targets.c.values import Buffer, Leaf, Value, const, nodes, size

# Larger than any policy: a file that asks for more is a mistake or an attack.
MOST_ELEMENTS = 1 << 27
# A tree of more operations than this is written out: the text must stay readable and quick.
MOST_NODES = 40

Sequenced = list[Value]
Result = Value | Sequenced
# What a node is given, in the order of its inputs; None where one is left out.
Inputs = Sequence[Result | None]
Lower = Callable[["Lowering", Node, Inputs], "Sequence[Result]"]


# Attributes that say nothing of the result, or what the weights say as well; or how float8 is
# rounded, and with how few bits a norm may be computed.
_IDLE = (
    "hidden_size", "kernel_shape", "momentum", "ratio", "seed", "sorted", "storage_order",
    "saturate", "round_mode", "stash_type",
)  # fmt: skip


# What NumPy and Python raise for sizes, axes and numbers that no operator can have. Nobody has
# looked at those of a branch before: onnxruntime does when a step comes there.
_CONTRADICTIONS = (
    ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError,
)  # fmt: skip


class Asked(Mapping[str, object]):
    """Attributes of a node that know which of them its operator has asked for.

    One that nobody asks for is a form of the operator that nobody knows.
    """

    def __init__(self, given: Mapping[str, object]) -> None:
        self._given = given
        self._asked: set[str] = set()

    def __getitem__(self, name: str) -> object:
        self._asked.add(name)
        return self._given[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)

    @property
    def unknown(self) -> list[str]:
        left = set(self._given) - self._asked - set(_IDLE)
        return [f"{name}={value}" for name, value in self._given.items() if name in left]


class Unsupported(ExportError):
    """The C writer does not know an operator, or a form of it."""

    code = "RW131"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lowered:
    """A graph as statements over buffers; ports in the order in which the graph lists them."""

    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    statements: tuple[Statement, ...]


@dataclass(slots=True, eq=False)
class Lowering:
    """The graph on its way: statements so far, and the scope of names."""

    operators: Mapping[str, Lower]
    weights: Storage = "float32"
    panels: Panels = PANELS
    statements: list[Statement] = field(default_factory=list)
    scope: dict[str, Result] = field(default_factory=dict)
    uses: Counter[str] = field(default_factory=Counter)
    wanted: dict[str, Buffer] = field(default_factory=dict)

    # ------------------------------------------------------------------ what operators call
    def work(self, dtype: np.dtype | str, count: int) -> Buffer:
        if count > MOST_ELEMENTS:
            raise Unsupported(
                f"a value of {count} elements", hint="the C writer keeps every value in memory"
            )
        return Buffer(dtype=np.dtype(dtype), size=max(count, 1), role="work")

    def room(self, dtype: np.dtype | str, shape: Sequence[int]) -> Leaf:
        """A value in a buffer of its own, in the order of its shape, that is yet to be written."""
        count = math.prod(shape)
        return Leaf(self.work(dtype, count), np.arange(count).reshape(shape))

    def add(self, statement: Statement) -> None:
        self.statements.append(statement)

    def stored(self, value: Value, *, ordered: bool = False) -> Leaf:
        """The value as elements of a buffer; `ordered` in the order of its shape, from place 0."""
        lies = isinstance(value, Leaf) and not _half_port(value) and value.buffer.role != "iota"
        if isinstance(value, Leaf) and lies and (not ordered or _is_run(value.index)):
            return value
        order = None if ordered else natural_order(value)
        buffer = self.work(value.dtype, size(value))
        places = np.arange(size(value))
        if order is not None:
            places[order] = np.arange(size(value))
        self.write(buffer, places, value)
        return Leaf(buffer, places.reshape(value.shape))

    def write(self, target: Buffer, places: Array, value: Value) -> None:
        """`target[places] = value`, in the order of the places."""
        places = np.asarray(places).ravel()
        if places.size:
            self.add(Store(target=target, places=places, value=value))

    def branch(
        self, condition: Value, bodies: Sequence[Graph], outputs: Sequence[str]
    ) -> list[Result]:
        """The outputs of whichever body the condition chooses, when the policy runs."""
        if size(condition) != 1:
            raise Unsupported(f"a condition of shape {condition.shape}")
        chosen = self.stored(condition)
        if chosen.known is not None:
            return self.inlined(bodies[0] if chosen.known.item() else bodies[1], {})
        written: list[tuple[Statement, ...]] = []
        results: list[Leaf] = []
        for body in bodies:
            outer, self.statements = self.statements, []
            values = self.inlined(body, {})
            for position, (name, value) in enumerate(zip(outputs, values, strict=True)):
                if isinstance(value, list):
                    raise Unsupported("a sequence as the result of a branch")
                if len(results) <= position:
                    made = self.room(value.dtype, value.shape)
                    # Another value may have the name of an output: in a branch, by a stranger.
                    port = self.wanted.get(name)
                    is_own = port and (port.size, port.dtype) == (size(value), value.dtype)
                    results.append(Leaf(port, made.index) if port and is_own else made)
                if results[position].shape != value.shape:
                    raise Unsupported(
                        f"branches that give {results[position].shape} and {value.shape}"
                    )
                self.write(results[position].buffer, results[position].index, value)
            written.append(tuple(self.statements))
            self.statements = outer
        self.add(Branch(condition=chosen, then=written[0], otherwise=written[1]))
        return list(results)

    def inlined(self, body: Graph, given: Mapping[str, Result]) -> list[Result]:
        """The outputs of a body, lowered in place; it sees the names around it."""
        outer = dict(self.scope)
        self.scope.update(given)
        values = self.run(body)
        self.scope = outer
        return values

    # ------------------------------------------------------------------ the walk
    def run(self, graph: Graph) -> list[Result]:
        self.scope.update({name: const(array) for name, array in graph.constants.items()})
        for node in graph.nodes:
            values = self._lowered(node)
            for place, name in enumerate(node.outputs):
                if name and place < len(values):
                    self.scope[name] = self._settled(name, values[place])
                elif name and self.uses[name]:
                    raise _refusal(node, f"{node.op}: its result {place}, {name}")
        lacking = [each.name for each in graph.outputs if each.name not in self.scope]
        if lacking:
            raise Unsupported(f"no node gives the output {lacking[0]}")
        return [self.scope[each.name] for each in graph.outputs]

    def _lowered(self, node: Node) -> Sequence[Result]:
        lower = self.operators.get(node.op)
        if lower is None:
            raise _refusal(node, f"the C writer does not know the operator {node.op}")
        lacking = [name for name in node.inputs if name and name not in self.scope]
        if lacking:
            raise _refusal(node, f"{node.op}: nothing gives {lacking[0]}")
        given = [self.scope[name] if name else None for name in node.inputs]
        attributes = Asked(node.attributes)
        try:
            values = lower(self, replace(node, attributes=attributes), given)
            if attributes.unknown:
                raise Unsupported(", ".join(attributes.unknown))
            return values
        except Unsupported as error:
            raise _refusal(node, f"{node.op}: {error.findings[0].what}") from error
        except NotImplementedError as error:
            raise _refusal(node, f"the C writer does not know {error}") from error
        except _CONTRADICTIONS as error:
            raise _refusal(node, f"{node.op}: its inputs do not fit: {error}") from error

    def _settled(self, name: str, value: Result) -> Result:
        """Written out where it is used twice, or has grown: a tree is evaluated once."""
        if isinstance(value, (list, Leaf)):
            return value
        if self.uses[name] > 1 or nodes(value) > MOST_NODES:
            return self.stored(value)
        return value


def lowered(
    graph: Graph,
    operators: Mapping[str, Lower],
    dims: Mapping[str, int],
    weights: Storage = "float32",
    panels: Panels = PANELS,
) -> Lowered:
    """The graph as statements, with every symbolic size replaced by a number."""
    inputs = tuple(_port(each, dims, "input") for each in graph.inputs)
    outputs = tuple(_port(each, dims, "output") for each in graph.outputs)
    walk = Lowering(operators, weights, panels)
    walk.uses = Counter(_used(graph))
    walk.wanted = {buffer.name: buffer for buffer in outputs}
    for buffer, declared in zip(inputs, graph.inputs, strict=True):
        shape = _sizes(declared, dims)
        walk.scope[buffer.name] = Leaf(buffer, np.arange(buffer.size).reshape(shape))
    values = walk.run(graph)
    for buffer, value in zip(outputs, values, strict=True):
        if isinstance(value, list):
            raise Unsupported(f"{buffer.name} is a sequence")
        if size(value) != buffer.size or value.dtype != buffer.dtype:
            raise Unsupported(
                f"{buffer.name}: the graph gives {value.dtype} {value.shape}, "
                f"and declares {buffer.dtype} with {buffer.size} elements"
            )
        if not (isinstance(value, Leaf) and value.buffer is buffer):
            walk.write(buffer, np.arange(buffer.size), value)
    return Lowered(inputs=inputs, outputs=outputs, statements=tuple(walk.statements))


def _port(declared: Declared, dims: Mapping[str, int], role: str) -> Buffer:
    sizes = _sizes(declared, dims)
    count = math.prod(sizes)
    if not declared.dtype or count > MOST_ELEMENTS or min(sizes, default=0) < 0:
        kind = declared.dtype or "a type that C lacks"
        raise Unsupported(f"{declared.name}: a port of {count} elements of {kind}")
    return Buffer(dtype=np.dtype(declared.dtype), size=count, role=role, name=declared.name)  # type: ignore[arg-type]


def _sizes(declared: Declared, dims: Mapping[str, int]) -> tuple[int, ...]:
    lacking = [dim for dim in declared.shape if isinstance(dim, str) and dim not in dims]
    if lacking:
        raise Unsupported(f"{declared.name}: nothing says how large {lacking[0]!r} is")
    return tuple(dims[dim] if isinstance(dim, str) else dim for dim in declared.shape)


def _used(graph: Graph) -> Iterable[str]:
    """Each name as often as it is read, inside branches too."""
    for node in graph.nodes:
        yield from node.inputs
        for value in node.attributes.values():
            if isinstance(value, Graph):
                yield from _used(value)
    yield from (each.name for each in graph.outputs)


def _refusal(node: Node, what: str) -> Unsupported:
    return Unsupported(
        what,
        where=node.name or node.outputs[0],
        hint="leave c out of targets=[…], or load with engine='onnx', or write that line with "
        "other operators",
    )


def _half_port(value: Leaf) -> bool:
    """Whether the elements are half floats as the caller stores them, and not yet floats."""
    return value.dtype == np.float16 and value.buffer.role in ("input", "output")


def _is_run(index: Array) -> bool:
    flat = index.ravel()
    return bool(flat.size == 0 or (np.diff(flat) == 1).all())
