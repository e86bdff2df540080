"""Substitution: while a graph is captured, stand-ins take the place of an environment's tensors.

An environment reads and writes its own tensors, not the arguments of a function. A function mode
sees every call and replaces each registered tensor, and each view of its memory, by the traced
stand-in. Whatever else was read is remembered: it would become a constant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from roadworthy.capture.substitution.indexing import replaced
from roadworthy.capture.substitution.views import Window, look, readable
from roadworthy.errors import ExportError
from roadworthy.errors.lines import current_line
from roadworthy.operators.asking import draws
from roadworthy.spec.port import Array

_REAL = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """A stretch of memory that registered tensors look into, and where each of them lies in it."""

    base: torch.Tensor
    parts: dict[str, Window] = field(default_factory=dict)

    @property
    def first(self) -> int:
        return self.base.data_ptr()

    @property
    def end(self) -> int:
        return self.first + self.base.numel() * self.base.element_size()

    def holds(self, tensor: torch.Tensor) -> bool:
        return self.first <= tensor.data_ptr() < self.end and tensor.dtype == self.base.dtype

    def rest(self, tensor: torch.Tensor) -> Array:
        """Which elements of the tensor belong to no registered part."""
        # In NumPy: a torch operation would become part of the graph that is being captured.
        free = np.ones(self.base.numel(), dtype=bool)
        for window in self.parts.values():
            _elements(free, window)[...] = False
        return _elements(free, Window.of(tensor, self.base)).copy()

    @property
    def whole(self) -> str | None:
        """The one part that covers all of the memory in its own order, if there is one."""
        full = Window.of(self.base, self.base)
        return next((n for n, w in self.parts.items() if w == full and len(self.parts) == 1), None)


def _elements(flat: Array, window: Window) -> Array:
    """The window on a flat array."""
    strides = tuple(stride * flat.itemsize for stride in window.stride)
    return np.lib.stride_tricks.as_strided(flat[window.offset :], window.size, strides)


def regions(registered: Mapping[str, torch.Tensor], known: Iterable[torch.Tensor]) -> list[Region]:
    """The memory behind the registered tensors; `known` are all tensors of the environment.

    Sharing is judged by address: simulators hand out several tensors over one allocation that
    know nothing of each other.
    """
    bases = sorted(
        (t for t in _bases([*registered.values(), *known]) if t.is_contiguous() and t.numel()),
        key=lambda tensor: -tensor.numel() * tensor.element_size(),
    )
    found: list[Region] = []
    for name, tensor in registered.items():
        region = next((each for each in found if each.holds(tensor)), None)
        if region is None:
            spans = (Region(base) for base in bases)
            region = next((each for each in spans if each.holds(tensor)), Region(tensor))
            found.append(region)
        region.parts[name] = Window.of(tensor, region.base)
    return found


def _bases(tensors: Iterable[torch.Tensor]) -> Iterable[torch.Tensor]:
    for tensor in tensors:
        if is_real(tensor) and tensor.layout is torch.strided:
            yield tensor
            if tensor._base is not None:
                yield tensor._base


def is_real(value: object) -> bool:
    """Whether this is a tensor with values, not one that a capture is made of."""
    return type(value) in _REAL and not torch._is_functional_tensor(value)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """A tensor that was read and is no port, or not all of it: it becomes a constant.

    `rest` marks the elements that belong to no port; None stands for all of them.
    """

    tensor: torch.Tensor
    where: str
    rest: Array | None = None


class Substitution(TorchFunctionMode):
    """Replaces registered tensors by `values`; lists every other real tensor that was read.

    `alike` are the ids of tensors that are the same in each row; where they are not registered,
    they are made `rows` long.
    """

    def __init__(
        self,
        found: list[Region],
        values: Mapping[str, torch.Tensor],
        alike: frozenset[int] = frozenset(),
        rows: Any = None,
    ) -> None:
        super().__init__()
        self._alike = alike
        self._rows = rows
        self._regions = found
        self._values = values
        self._twins: dict[int, torch.Tensor] = {}
        self.reads: dict[int, Read] = {}
        self.draws: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        like = next((t for t in types if not issubclass(t, torch.Tensor)), None)
        if like is not None:
            # An array of another library that stands for a tensor: it calls once more with that.
            with self:
                return like.__torch_function__(func, types, args, kwargs)
        if _draws_one_number(func, args, kwargs):
            return _that_number(args, kwargs)
        if _draws(func, args, kwargs):
            self.draws.append(current_line())
        args = tree_map_only(torch.Tensor, self.stand_in, args)
        kwargs = tree_map_only(torch.Tensor, self.stand_in, kwargs)
        call = replaced(func, args, kwargs)
        return func(*args, **kwargs) if call is None else call()

    def stand_in(self, tensor: torch.Tensor) -> torch.Tensor:
        """The traced tensor for a registered one or a view of it; any other as it is."""
        if not is_real(tensor) or tensor.layout is not torch.strided:
            return tensor
        for region in self._regions:
            if tensor.numel() and region.holds(tensor):
                rest = region.rest(tensor)
                if rest.any():
                    self._note(tensor, rest)
                return self._view(region, tensor)
        self._note(tensor)
        if isinstance(tensor, torch.nn.Parameter):
            return tensor
        # What is not registered starts as it is now; a write to it must still be seen later on.
        base = tensor if tensor._base is None else tensor._base
        if not (base.is_contiguous() and tensor.numel()):
            return tensor
        self._regions = [*self._regions, Region(base)]
        return self._view(self._regions[-1], tensor)

    def _note(self, tensor: torch.Tensor, rest: Array | None = None) -> None:
        if id(tensor) not in self.reads:
            self.reads[id(tensor)] = Read(tensor, current_line(), rest)

    def _view(self, region: Region, tensor: torch.Tensor) -> torch.Tensor:
        shape = tuple(region.base.shape)
        window = Window.of(tensor, region.base)
        twin = self._twin(region)
        try:
            return look(twin, shape, window)
        except ValueError:
            return readable(twin, window)

    def _twin(self, region: Region) -> torch.Tensor:
        if id(region) not in self._twins:
            self._twins[id(region)] = self._new_twin(region)
        return self._twins[id(region)]

    def _new_twin(self, region: Region) -> torch.Tensor:
        if region.whole is not None:
            return self._values[region.whole].clone()
        # Parts of a larger memory: the rest of it is what it is now.
        twin = self._stretched(region.base).clone()
        for name, window in region.parts.items():
            _writable(name, twin, region, window).copy_(self._values[name])
        return twin

    def _stretched(self, base: torch.Tensor) -> torch.Tensor:
        if id(base) not in self._alike:
            return base
        return base[:1].expand(self._rows, *base.shape[1:])


def _writable(name: str, twin: torch.Tensor, region: Region, window: Window) -> torch.Tensor:
    try:
        return look(twin, tuple(region.base.shape), window)
    except ValueError as error:
        raise ExportError(
            f"the tensor is a view that cannot be written back: {error}",
            where=name,
            hint="register the tensor that it is a view of",
        ) from error


def _draws(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether the call draws random numbers; dropout does so only in training."""
    name = getattr(func, "__name__", "")
    if name in ("dropout", "feature_dropout", "alpha_dropout"):
        training = kwargs.get("training", args[2] if len(args) > 2 else kwargs.get("train", True))
        return bool(training)
    return draws(name)


def _draws_one_number(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether a call of randint has one number to choose from, as a delay that is fixed has."""
    if getattr(func, "__name__", "") != "randint" or "out" in kwargs:
        return False
    low, high, _ = _bounds(args, kwargs)
    return isinstance(low, int) and isinstance(high, int) and high - low == 1


def _bounds(args: Any, kwargs: Any) -> tuple[Any, Any, Any]:
    """The lowest number, the one after the highest, and the shape: `low` may be left out."""
    said = [each for each in args if isinstance(each, int)]
    shape = kwargs.get("size", next((e for e in args if isinstance(e, (tuple, list))), None))
    high = kwargs.get("high", said[-1] if said else None)
    low = kwargs.get("low", said[0] if len(said) == 2 or ("high" in kwargs and said) else 0)
    return low, high, shape


def _that_number(args: Any, kwargs: Any) -> torch.Tensor:
    low, _, shape = _bounds(args, kwargs)
    options = {k: v for k, v in kwargs.items() if k in ("dtype", "device") and v is not None}
    return torch.full(tuple(shape), low, **({"dtype": torch.int64} | options))
