"""Ports: the named, typed places where values enter, leave and persist."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]
else:
    Array = np.ndarray

Dim = int | str
Noise = Literal["normal", "uniform"]
Scalar = bool | int | float
# A number, or nested tuples of numbers: what an array is in frozen, comparable, JSON-able form.
Values = Scalar | tuple["Values", ...]
# What a user may pass for them: an array, a tensor, nested sequences, a number. Frozen on entry.
Numbers = Any

BATCH = "batch"
DTYPES = (
    "float16", "float32", "float64",
    "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64",
    "bool",
)  # fmt: skip


def freeze(values: Any) -> Values:
    """Nested tuples of Python numbers from an array, a tensor, nested sequences or a number."""
    if isinstance(values, (list, tuple)):
        return tuple(freeze(each) for each in values)
    if hasattr(values, "tolist"):
        return freeze(values.tolist())
    if isinstance(values, Scalar):
        return values
    if values in ("inf", "-inf"):
        return float(values)
    raise TypeError(f"expected numbers, got {type(values).__name__}")


def jsonable(values: Any) -> Any:
    """`values` for strict JSON, which has no infinity: it becomes a word that `freeze` reads."""
    if isinstance(values, (list, tuple)):
        return [jsonable(each) for each in values]
    return str(values) if isinstance(values, float) and math.isinf(values) else values


def shape_of(values: Values) -> tuple[int, ...] | None:
    """The shape of nested numbers; None where they are ragged."""
    try:
        return np.shape(values)
    except ValueError:
        return None


def leaves(values: Values) -> Iterator[Scalar]:
    """Every number in `values`."""
    if isinstance(values, tuple):
        for each in values:
            yield from leaves(each)
    else:
        yield values


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a person may add to a port: meaning, unit, element names, limits.

    `noise` makes an input one that the runtime draws itself, row by row, where the caller does
    not pass it: "normal" (mean 0, deviation 1) or "uniform" (from 0, below 1).
    """

    description: str = ""
    unit: str = ""
    elements: Sequence[str] = ()
    low: Numbers = None
    high: Numbers = None
    noise: Noise | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "elements", tuple(self.elements))
        for side in ("low", "high"):
            value = getattr(self, side)
            object.__setattr__(self, side, None if value is None else freeze(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A named array that enters or leaves the policy at every step."""

    name: str
    dtype: str
    shape: tuple[Dim, ...]
    about: About = About()

    @property
    def batch_axis(self) -> int | None:
        """The axis of the rows; None where their number is fixed."""
        return self.shape.index(BATCH) if BATCH in self.shape else None

    def sizes(self, dims: Mapping[str, int]) -> tuple[int, ...]:
        """The shape with every symbolic dimension replaced by its size."""
        return tuple(dims[dim] if isinstance(dim, str) else dim for dim in self.shape)

    def __str__(self) -> str:
        return f"{self.dtype} {shape_text(self.shape)}"

    def to_json(self) -> dict[str, Any]:
        about = {
            key: jsonable(value)
            for key in About.__slots__
            if (value := getattr(self.about, key)) not in ("", (), None)
        }
        return {"name": self.name, "dtype": self.dtype, "shape": list(self.shape), **about}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Port:
        about = About(**{key: data[key] for key in About.__slots__ if key in data})
        return cls(name=data["name"], dtype=data["dtype"], shape=tuple(data["shape"]), about=about)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A value that the policy hands to its own next step; `initial` is where it starts.

    `initial` has the shape of one row (size 1 on the batch axis), or is one number for all.
    """

    name: str
    dtype: str
    shape: tuple[Dim, ...]
    initial: Values = 0
    input: str = ""
    output: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "initial", compact(freeze(self.initial)))
        object.__setattr__(self, "input", self.input or f"{self.name}_in")
        object.__setattr__(self, "output", self.output or f"{self.name}_out")

    def fresh(self, batch: int) -> Array:
        """A new array that holds the initial value in each of `batch` rows."""
        sizes = tuple(batch if dim == BATCH else int(dim) for dim in self.shape)
        array: Array = np.empty(sizes, dtype=self.dtype)
        array[...] = np.asarray(self.initial, dtype=self.dtype)
        return array

    def rows(self, mask: Any) -> Any:
        """The index that selects the masked rows of an array with this memory's layout."""
        if BATCH not in self.shape:
            # The number of rows is fixed and which axis holds them is not known: all or none.
            return ... if mask.all() else slice(0, 0)
        return (*(slice(None),) * self.shape.index(BATCH), mask)

    def __str__(self) -> str:
        start = "…" if isinstance(self.initial, tuple) else self.initial
        return f"{self.dtype} {shape_text(self.shape)} from {start}"

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "dtype": self.dtype,
            "shape": list(self.shape),
            "initial": self.initial,
            "input": self.input,
            "output": self.output,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Memory:
        return cls(**{**data, "shape": tuple(data["shape"])})


def compact(values: Values) -> Values:
    """One number where all numbers are the same; the nested tuples otherwise."""
    flat = list(leaves(values))
    same = all(
        each == flat[0] and math.copysign(1, each) == math.copysign(1, flat[0]) for each in flat
    )
    return flat[0] if flat and same else values


def shape_text(shape: tuple[Dim, ...]) -> str:
    """`(batch, 48)`: the shape as a person writes it."""
    return "(" + ", ".join(str(dim) for dim in shape) + ("," if len(shape) == 1 else "") + ")"
