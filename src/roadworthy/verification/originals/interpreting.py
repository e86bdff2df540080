"""Runs of a captured graph, node by node: as it is, in float64, and moved by rounding."""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._functorch import pyfunctorch
from torch.utils._pytree import tree_map

from roadworthy.operators.captured import name_of
from roadworthy.operators.row import Rounding
from roadworthy.operators.table import known

_WITH_AUTOCAST = torch.ops.higher_order.wrap_with_autocast
# Says that a value has the dtype which it had when it was captured.
ASSERTS = (torch.ops.aten._assert_tensor_metadata.default,)
_EXACT = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}
# What may turn is moved by shares of a longest step: the exponent of two of the shortest share.
_SMALLEST_SHARE = -5.0


class Recording(torch.fx.Interpreter):
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

    def run(self, *args: Any, **_: Any) -> Any:
        """What the graph returns. As PyTorch's own, without the notes that it takes on the way:
        thousands of small runs are made of a policy."""
        self.args_iter = iter(self.graph.process_inputs(*args))
        self.env = {}
        for node in self.graph.nodes:
            self.env[node] = self.run_node(node)
            if node.op == "output":
                return self.graph.process_outputs(self.env[node])
            for used in self.user_to_last_uses.get(node, ()):
                del self.env[used]
        return None

    def run_node(self, n: torch.fx.Node) -> Any:
        self._look(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def _look(self, choice: torch.fx.Node) -> None:
        entering = choice.args[0] if chooses(choice.target) else None
        if not isinstance(entering, torch.fx.Node):
            return
        value = self.env[entering]
        if chosen_by_row(value, choice.args[1:], choice.kwargs):
            self._chosen_from.setdefault(entering, value.clone())


class Entering(Recording):
    """Keeps what enters each operator that rounding may turn, by its node.

    `before` has what else enters the nodes from there on: they can be run again by themselves.
    """

    def __init__(self, module: torch.fx.GraphModule, behind: Container[torch.fx.Node] = ()) -> None:
        super().__init__(module)
        self.found: dict[torch.fx.Node, torch.Tensor] = {}
        self.before: dict[torch.fx.Node, Any] = {}
        self._behind = behind

    def run_node(self, n: torch.fx.Node) -> Any:
        if n in self._behind:
            outside = (each for each in n.all_input_nodes if each not in self._behind)
            self.before |= {each: self.env[each] for each in outside}
        if turns(n.target) and isinstance(n.args[0], torch.fx.Node):
            value = self.env[n.args[0]]
            if value.is_floating_point():
                self.found[n] = value.clone()
        return super().run_node(n)


class Turning(Recording):
    """Runs a graph with what enters a choice or a rounding moved up and down at random."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        errors: Mapping[torch.fx.Node, torch.Tensor],
        ulps: int,
        seed: int,
    ) -> None:
        super().__init__(module)
        self._behind: Container[torch.fx.Node] = ()
        self._before: Mapping[torch.fx.Node, Any] | None = None
        self._errors = errors
        self._ulps = ulps
        self._generator = torch.Generator().manual_seed(seed)

    def begin_behind(
        self, behind: Container[torch.fx.Node], before: Mapping[torch.fx.Node, Any]
    ) -> None:
        """Lets `run` do these nodes only, to which `before` is what entered them."""
        self._behind, self._before = behind, before

    def run(self, *args: Any, **keywords: Any) -> Any:
        if self._before is None:
            return super().run(*args, **keywords)
        self.env = dict(self._before)
        for node in self.graph.nodes:
            if node in self._behind:
                self.env[node] = self.run_node(node)
                if node.op == "output":
                    return self.graph.process_outputs(self.env[node])
        return None

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
        with pyfunctorch.temporarily_clear_interpreter_stack():  # inside of vmap nothing is drawn
            size = torch.rand(values.shape, generator=self._generator) * _SMALLEST_SHARE
            up = torch.rand(values.shape, generator=self._generator) < 0.5
        share = torch.where(up, 1.0, -1.0) * torch.exp2(size)
        # Zeros are moved too: a tie of zeros is one.
        unit = values.abs() * kind.eps + _repeated(error, values).clamp(min=kind.tiny)
        return values + self._ulps * share.to(values.dtype) * unit


def _repeated(error: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """The errors of some rows, for values in which these rows come several times."""
    if error.shape == values.shape:
        return error
    times = [
        its // own if own and its % own == 0 else 0
        for own, its in zip(error.shape, values.shape, strict=False)
    ]
    fits = error.ndim == values.ndim and all(times) and sum(each > 1 for each in times) == 1
    return error.repeat(times) if fits else error.median()


class Exact(Recording):
    """Runs a graph with every float in float64, whatever the graph says."""

    def converted(self, values: Any) -> Any:
        return tree_map(double, values)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target in ASSERTS:
            return None
        args, kwargs = tree_map(exact_dtype, (args, kwargs))
        return super().call_function(target, args, kwargs)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = super().get_attr(target, args, kwargs)
        if isinstance(value, torch.fx.GraphModule):  # a branch, or the body of a loop
            inside: Callable[..., Any] = type(self)(value).run
            return inside
        return double(value)


class ExactEntering(Exact, Entering):
    """What enters each operator that rounding may turn, in float64."""


class Shake:
    """Moves the results of all that rounds by up to some units in the last place.

    Inputs that are moved say nothing where the first layer saturates: what rounds behind it does
    so all the same. Always towards zero, so that nothing leaves the range of its function.
    """

    def __init__(self, ulps: int, seed: int) -> None:
        self._ulps = ulps
        self._generator = torch.Generator().manual_seed(seed)

    def of(self, kind: str, result: Any) -> Any:
        """What an operator gave, moved as those of its kind are (`shaken_as`)."""
        move: Callable[[Any], Any] = getattr(self, kind)
        return move(result) if isinstance(result, torch.Tensor) else tree_map(move, result)

    def _moved(self, value: Any) -> Any:
        return value * (1 - self._units(value)) if _is_float(value) else value

    def _moved_unless_whole(self, value: Any) -> Any:
        return torch.where(value == value.round(), value, self._moved(value))

    def _moved_by_one(self, value: Any) -> Any:
        """A small result is moved by as much as one would be, but not to zero or beyond it."""
        if not _is_float(value):
            return value
        units = self._units(value)
        return value * (1 - units) - 0.9 * value.clamp(-units, units)

    def _moved_around_zero(self, value: Any) -> Any:
        if not _is_float(value):
            return value
        units = self._units(value)
        # By one unit of one to either side; what is large has larger units, towards zero as ever.
        sides = units * (1 - 2 * (units > units.mean()).to(value.dtype))
        return torch.where(value.abs() < 0.5, value + sides, value * (1 - units))

    def _units(self, like: torch.Tensor) -> torch.Tensor:
        """How far each element of a row is moved; all rows alike, which are states of their own."""
        shape = like[:1].shape
        if torch._C._functorch.peek_interpreter_stack() is None:
            draws = torch.randint(1, 5, shape, generator=self._generator)
        else:
            with (
                pyfunctorch.temporarily_clear_interpreter_stack()
            ):  # inside of vmap nothing is drawn
                draws = torch.randint(1, 5, shape, generator=self._generator)
        return draws.to(like.dtype) * (self._ulps / 4 * torch.finfo(like.dtype).eps)


# How the results of an operator are moved, by how they may be off.
_MOVES: dict[Rounding, str] = {
    "": "",
    "sum": "_moved",
    "count": "_moved_unless_whole",
    "by one": "_moved_by_one",
    "around zero": "_moved_around_zero",
}


def shaken_as(node: torch.fx.Node) -> str:
    """How the results of a node are moved, by the name of a method; empty where they are not."""
    return _MOVES[known(name_of(node.target)).rounds] if node.op == "call_function" else ""


class Shaking(Recording):
    """Runs a graph with the results of all that rounds moved by up to some units."""

    def __init__(self, module: torch.fx.GraphModule, ulps: int, seed: int) -> None:
        super().__init__(module)
        self._shake = Shake(ulps, seed)
        self._arguments = (ulps, seed)

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        if (
            n.op == "get_attr"
            and n.users
            and all(each.target is _WITH_AUTOCAST for each in n.users)
        ):
            return type(self)(result, *self._arguments).run  # it rounds inside, and coarsely
        kind = shaken_as(n)
        return self._shake.of(kind, result) if kind else result


@functools.cache
def turns(target: object) -> bool:
    """Whether a little more or less of what enters a node makes another result altogether."""
    name = name_of(target)
    return bool(name) and getattr(target, "_overloadname", "") in known(name).turns


@functools.cache
def chooses(target: object) -> bool:
    """Whether what enters a node along its last axis is what a choice is made of."""
    name = name_of(target)
    return bool(name) and getattr(target, "_overloadname", "") in known(name).chooses


def chosen_by_row(value: torch.Tensor, others: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Whether a choice goes along the last axis of floats; `others` are its further arguments."""
    dim = others[0] if others else named.get("dim", named.get("axis"))
    dim = dim[0] if isinstance(dim, (tuple, list)) and len(dim) == 1 else dim
    last = isinstance(dim, int) and dim in (-1, value.ndim - 1) and value.ndim > 1
    return last and value.is_floating_point()


@contextmanager
def closing_transforms() -> Iterator[None]:
    """Closes what a graph opened, a `vmap`, where an operator inside of it raises."""
    try:
        yield
    except BaseException:
        while torch._C._functorch.peek_interpreter_stack() is not None:
            torch._C._functorch.pop_dynamic_layer_stack()
        raise


def double(value: Any) -> Any:
    """A tensor with floats in float64; anything else as it is."""
    if isinstance(value, torch.Tensor) and value.dtype in _EXACT:
        return value.detach().to(_EXACT[value.dtype])
    return value


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.ndim > 0


def exact_dtype(value: Any) -> Any:
    """The dtype in which a graph that names this one is run exactly; anything else as it is."""
    return _EXACT.get(value, value) if isinstance(value, torch.dtype) else value
