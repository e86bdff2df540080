"""The form of a state: how a module keeps it, and which of its leaves are carried as tensors."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

from roadworthy.capture.row_numbers import RowNumber
from roadworthy.errors import ExportError, UsageError
from roadworthy.spec.layout import Layout

Kind = Literal["tensor", "number", "scalar"]
_NUMBERS = (bool, int, float)


@dataclass(frozen=True, slots=True)
class Leaf:
    """The place of a port in a form. Of a `number` or a scalar tensor there is one for each row.

    `each` is how many rows the module keeps for each row of the batch, one behind the other: as
    many as there are agents. The port has an axis of its own for them.
    """

    port: str
    kind: Kind
    axes: int = 0  # of the tensor, as the module keeps it
    each: int = 0

    def kept(self, tensor: torch.Tensor) -> torch.Tensor:
        """The value of the port as the module keeps it."""
        return tensor.flatten(0, 1) if self.each and tensor.ndim > self.axes else tensor

    def carried(self, tensor: Any) -> Any:
        """What the module keeps as the value of the port."""
        if not self.each or tensor.ndim > self.axes:
            return tensor
        return tensor.reshape(-1, self.each, *tensor.shape[1:])


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """A value as the module keeps it, with a `Leaf` wherever a port belongs."""

    template: Any

    @property
    def leaves(self) -> list[Leaf]:
        return [each for _, each in walked("", self.template) if isinstance(each, Leaf)]

    @property
    def layout(self) -> Layout:
        """How the ports nest, as JSON."""
        return _layout(self.template)

    def pack(self, tensors: Mapping[str, torch.Tensor]) -> Any:
        """The value that a call finds: containers of its own, and the tensors in their places."""

        def given(leaf: Any) -> Any:
            if not isinstance(leaf, Leaf):
                return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf
            tensor = tensors[leaf.port]
            if leaf.kind == "number":
                return RowNumber(tensor)
            # A scalar meets the rows of what has features behind them.
            if leaf.kind == "scalar" and tensor.ndim:
                return tensor.reshape(-1, 1)
            return leaf.kept(tensor)

        return mapped(self.template, given)

    def pack_alone(self, tensors: Mapping[str, torch.Tensor]) -> Any:
        """The value as the module itself keeps it, for a call of a single row."""

        def given(leaf: Any) -> Any:
            if not isinstance(leaf, Leaf):
                return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf
            tensor = tensors[leaf.port].clone()
            if leaf.kind == "tensor":
                return tensor if tensor.ndim == leaf.axes else tensor.reshape(tensor.shape[1:])
            return tensor.reshape(()) if leaf.kind == "scalar" else tensor.item()

        return mapped(self.template, given)

    def unpack(self, value: Any, where: str) -> dict[str, Any]:
        """Port → what the value holds there."""
        found = dict(walked("", value))
        result: dict[str, Any] = {}
        for place, leaf in walked("", self.template):
            if place not in found:
                raise _other_form(where, self.template, value)
            if isinstance(leaf, Leaf):
                held = found[place]
                held = held.rows if type(held) is RowNumber else held
                if leaf.kind == "scalar" and held.ndim > 1:
                    held = held.reshape(-1)
                result[leaf.port] = leaf.carried(held)
        if len(found) != len(list(walked("", self.template))):
            raise _other_form(where, self.template, value)
        return result


def form_of(name: str, stages: list[Any], *, whole: bool) -> Form:
    """The form of what an attribute held after each of some calls.

    Tensors are ports, and so are numbers that moved; what else there is must stay as it is. `whole`
    lets what is a single number be a port though it has not moved yet.
    """
    seen = [dict(walked("", each)) for each in stages]
    last = stages[-1]
    for each, leaves in zip(stages, seen, strict=True):
        if list(leaves) != list(seen[-1]):
            raise _other_form(name, last, each)

    def leaf(place: str, value: Any) -> Any:
        port = f"{name}{place}"
        if isinstance(value, torch.Tensor):
            return Leaf(port, "tensor" if value.ndim else "scalar", value.ndim)
        moved = any(leaves[place] != value for leaves in seen)
        if isinstance(value, _NUMBERS) and not isinstance(value, bool):
            return Leaf(port, "number") if moved or (whole and not place) else value
        if moved:
            raise ExportError(
                f"it holds {', then '.join(repr(leaves[place]) for leaves in seen)}: what a call "
                "leaves there decides which way the next one takes",
                code="RW110",
                where=port,
                hint="choose with torch.where by a tensor that is memory, not with `if`",
            )
        return value

    return Form(_named(last, leaf))


def starting_form(later: Form, start: Any) -> Form:
    """The form in which an episode starts: tensors and numbers are ports where `later` has them."""
    ports = dict(walked("", later.template))

    def leaf(place: str, value: Any) -> Any:
        port = ports.get(place)
        alike = isinstance(port, Leaf) and isinstance(value, (torch.Tensor, int, float))
        return port if alike and not isinstance(value, bool) else value

    return Form(_named(start, leaf))


def walked(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Every leaf with its place: `.h`, `.0`."""
    if isinstance(value, Mapping):
        parts = value.items()
    elif isinstance(value, (list, tuple, deque)):
        parts = enumerate(value)  # type: ignore[assignment]
    elif _is_dataclass(value):
        parts = ((f.name, getattr(value, f.name)) for f in dataclasses.fields(value))  # type: ignore[assignment]
    else:
        yield place, value
        return
    for key, each in parts:
        yield from walked(f"{place}.{key}", each)


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """A copy of a nested value, its leaves changed."""
    return _named(value, lambda _, leaf: change(leaf))


def copied(value: Any) -> Any:
    """A copy that shares no container and no tensor with the value."""
    return mapped(value, lambda leaf: _detached(leaf) if _is_tensor(leaf) else leaf)


def refuse_objects(name: str, path: str, value: Any) -> None:
    """An error for a leaf that is neither a tensor nor a plain value."""
    plain = (torch.Tensor, type(None), bool, int, float, str)
    for place, leaf in walked("", value):
        if isinstance(leaf, plain):
            continue
        own = [n for n, each in vars(leaf).items() if isinstance(each, torch.Tensor)] if hasattr(
            leaf, "__dict__"
        ) else []  # fmt: skip
        raise UsageError(
            f"memory holds a {type(leaf).__name__}, expected tensors or numbers",
            where=f"{name}{place}",
            hint=f"name what persists in it: memory={{{own[0]!r}: {f'{path}{place}.{own[0]}'!r}}}"
            if own
            else "keep what persists in a tensor with a batch axis, such as zeros(batch, 1)",
        )


def _named(value: Any, change: Callable[[str, Any], Any], place: str = "") -> Any:
    def below(key: Any, each: Any) -> Any:
        return _named(each, change, f"{place}.{key}")

    if isinstance(value, Mapping):
        items = {key: below(key, each) for key, each in value.items()}
        return items if type(value) is dict else _like_mapping(value, items)
    if isinstance(value, deque):
        return deque((below(i, each) for i, each in enumerate(value)), value.maxlen)
    if isinstance(value, (list, tuple)):
        parts = [below(i, each) for i, each in enumerate(value)]
        if isinstance(value, list):
            return parts
        return value._make(parts) if hasattr(value, "_make") else tuple(parts)
    if _is_dataclass(value):
        made = object.__new__(type(value))
        for each in dataclasses.fields(value):
            object.__setattr__(made, each.name, below(each.name, getattr(value, each.name)))
        return made
    return change(place, value)


def _like_mapping(value: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    try:
        made = value.copy()  # type: ignore[attr-defined]
        made.update(items)
    except (AttributeError, TypeError):  # a mapping that cannot be written
        return items
    return made


def _layout(template: Any) -> Layout:
    if isinstance(template, Leaf):
        return template.port
    if isinstance(template, Mapping):
        return {str(key): _layout(each) for key, each in template.items() if _holds(each)}
    if isinstance(template, (list, tuple, deque)):
        return [_layout(each) for each in template if _holds(each)]
    if _is_dataclass(template):
        fields = {f.name: getattr(template, f.name) for f in dataclasses.fields(template)}
        return {key: _layout(each) for key, each in fields.items() if _holds(each)}
    return []


def _holds(template: Any) -> bool:
    return any(isinstance(each, Leaf) for _, each in walked("", template))


def _is_dataclass(value: Any) -> bool:
    return (
        dataclasses.is_dataclass(value)
        and not isinstance(value, type)
        and not isinstance(value, (Leaf, torch.nn.Module))
    )


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _detached(value: torch.Tensor) -> torch.Tensor:
    return value.detach().clone()


def _other_form(where: str, one: Any, other: Any) -> ExportError:
    first, second = (len(list(walked("", each))) for each in (one, other))
    return ExportError(
        f"what it holds changes its form from call to call: {second} values, then {first}"
        if first != second
        else "what it holds changes its form from call to call",
        code="RW110",
        where=where,
        hint="fill it when an episode starts, so that it always holds the same number of tensors: "
        "deque([zeros] * 5, maxlen=5)",
    )
