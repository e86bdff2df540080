"""A number that a module keeps for itself, while many rows are computed at once: one for each."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only

from roadworthy.errors import ExportError
from roadworthy.errors.lines import current_line


class RowNumber:
    """One number for each row, which takes part in arithmetic as a plain number does.

    It never changes the dtype of a tensor, and meets each row of it. What only Python can do with a
    number (branch, count, index a list) is refused with the line.
    """

    __slots__ = ("__weakref__", "rows")

    def __init__(self, rows: torch.Tensor) -> None:
        self.rows = rows

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "__getitem__":
            return _picked(*args)
        if name == "__setitem__":
            return _put(*args)
        filled = _filled(name, args, named)
        if filled is not None:
            return filled
        tensors = [each for each in tree_leaves((args, named)) if isinstance(each, torch.Tensor)]
        if not tensors:
            return _wrapped(func(*_bare(args), **_bare(named)))
        axes = max(each.ndim for each in tensors)
        like = next((each for each in tensors if each.is_floating_point()), tensors[0])
        args, named = tree_map(lambda each: _fitted(each, axes, like), (args, named))
        return func(*args, **named)

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **named: Any) -> Any:
        """`np.sin` and its like of plain numbers, computed by PyTorch in NumPy's precision."""
        act = getattr(torch, ufunc.__name__, None)
        if method != "__call__" or named or act is None or any(map(_is_array, args)):
            _refuse(f"np.{ufunc.__name__}")
        rows = [each.rows if type(each) is RowNumber else _precise(each) for each in args]
        if len(rows) == 1 and not rows[0].is_floating_point():
            rows = [rows[0].double()]  # as NumPy does with an int
        return _wrapped(act(*rows))

    def __float__(self) -> NoReturn:
        _refuse("float()")

    def __int__(self) -> NoReturn:
        _refuse("int()")

    def __bool__(self) -> NoReturn:
        _refuse("a branch")

    def __index__(self) -> NoReturn:
        _refuse("an index or a count")

    def __round__(self, digits: int | None = None) -> NoReturn:
        _refuse("round()")

    def __repr__(self) -> str:
        return f"RowNumber({self.rows!r})"

    def __hash__(self) -> int:
        return id(self)


READ = "a number that is memory is read by {how}; a graph would freeze its value"
COMPUTE = (
    "compute with it instead: torch.where(condition, a, b) for a branch, torch.sin for math.sin, "
    "torch.ones_like(obs[:, :1]) * number for torch.tensor([[number]])"
)


def _refuse(how: str) -> NoReturn:
    raise ExportError(READ.format(how=how), code="RW103", where=current_line(), hint=COMPUTE)


def _fitted(value: Any, axes: int, like: torch.Tensor) -> Any:
    """A number among some arguments as a tensor that meets the rows of the others."""
    if type(value) is RowNumber:
        rows = value.rows
        if rows.dtype is not torch.bool:
            number, tensor = rows.is_floating_point(), like.is_floating_point()
            rows = rows.to(torch.get_default_dtype() if number and not tensor else like.dtype)
        if not rows.ndim or (axes == 1 and statically_known_true(like.shape[0] == len(rows))):
            return rows
        return rows.reshape(rows.shape[:1] + (1,) * max(axes - 1, 1))
    return value


def _bare(value: Any) -> Any:
    return tree_map_only(RowNumber, lambda each: each.rows, value)


def _wrapped(value: Any) -> Any:
    return RowNumber(value) if isinstance(value, torch.Tensor) else value


def _is_array(value: Any) -> bool:
    return type(value) is not RowNumber and not np.isscalar(value)


def _precise(value: Any) -> torch.Tensor:
    real = isinstance(value, (float, np.floating))
    return torch.tensor(value, dtype=torch.float64 if real else None)


def _filled(name: str, args: Any, named: dict[str, Any]) -> Any:
    """`torch.full` and its kin: ones of that shape, times the number; None for anything else."""
    if name == "fill_":
        return args[0].copy_(torch.ones_like(args[0]) * _fill_value(1, args, named))
    if name == "full":
        number = _fill_value(1, args, named)
        return torch.ones(args[0], **named) * number
    if name == "full_like":
        number = _fill_value(1, args, named)
        return torch.ones_like(args[0], **named) * number
    if name == "new_full":
        number = _fill_value(2, args, named)
        return args[0].new_ones(args[1], **named) * number
    return None


def _fill_value(place: int, args: Any, named: dict[str, Any]) -> Any:
    """Takes the number out of the arguments."""
    return named.pop("fill_value", None) if len(args) <= place else args[place]


def _keys(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def _row_index(value: torch.Tensor, index: Any) -> tuple[int, torch.Tensor]:
    """The axis that a number of each row picks from, after the batch axis."""
    keys = _keys(index)
    places = [place for place, key in enumerate(keys) if type(key) is RowNumber]
    others = [key for key in keys if type(key) is not RowNumber]
    if len(places) != 1 or any(each != slice(None) for each in others):
        _refuse("an index beside other indices")
    rows = keys[places[0]].rows.long()
    size = value.shape[places[0]]
    return places[0], torch.where(rows < 0, rows + size, rows)


def _picked(value: Any, index: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        _refuse("an index")
    axis, rows = _row_index(value, index)
    if axis == 0:  # a table without a batch axis: one entry for each row
        return value.index_select(0, rows)
    chosen = torch.arange(value.shape[axis]).reshape(-1, *(1,) * (value.ndim - axis - 1))
    mask = chosen == rows.reshape(-1, *(1,) * (value.ndim - 1))
    return torch.where(mask, value, torch.zeros_like(value)).sum(axis).to(value.dtype)


def _put(value: torch.Tensor, index: Any, new: Any) -> None:
    if not any(type(key) is RowNumber for key in _keys(index)):
        # Only what is put there is a number.
        part = value[index]
        value[index] = torch.ones_like(part) * new
        return
    axis, rows = _row_index(value, index)
    if axis == 0:
        _refuse("an index of the batch axis")
    chosen = torch.arange(value.shape[axis]).reshape(-1, *(1,) * (value.ndim - axis - 1))
    mask = chosen == rows.reshape(-1, *(1,) * (value.ndim - 1))
    if isinstance(new, torch.Tensor) and new.ndim == value.ndim - 1:
        new = new.unsqueeze(axis)
    elif isinstance(new, RowNumber):
        new = torch.mul(torch.ones_like(value), new)  # type: ignore[arg-type]
    value.copy_(torch.where(mask, new, value))


def _operator(name: str, *, swapped: bool = False) -> Callable[..., Any]:
    act = getattr(operator, name)

    def method(self: RowNumber, *others: Any) -> Any:
        if any(isinstance(each, torch.Tensor) for each in others):
            order = (*others, self) if swapped else (self, *others)
            dtyped = _torch_function(name)
            return RowNumber.__torch_function__(dtyped, (), order, {})
        rows = (self.rows, *map(_bare, others))
        real = name == "truediv" or any(isinstance(each, float) for each in others)
        if real and not self.rows.is_floating_point():
            rows = (self.rows.double(), *rows[1:])  # as Python computes with an int
        if rows[0].dtype is torch.float64:
            # The constants of a graph would otherwise be in single precision.
            rows = tuple(_double(each) for each in rows)
        return _wrapped(act(*(rows[::-1] if swapped else rows)))

    return method


def _double(value: Any) -> Any:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return torch.tensor(float(value), dtype=torch.float64)
    return value


def _torch_function(name: str) -> Any:
    named = {"truediv": "true_divide", "floordiv": "floor_divide", "mod": "remainder"}
    return getattr(torch, named.get(name, name))


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(RowNumber, f"__{_name}__", _operator(_name))
    setattr(RowNumber, f"__r{_name}__", _operator(_name, swapped=True))
for _name in ("lt", "le", "gt", "ge", "eq", "ne", "neg", "abs"):
    setattr(RowNumber, f"__{_name}__", _operator(_name))
