"""Randomness as an input: what TorchRL would draw is taken from noise ports instead.

The draws of a policy are those of PyTorch: `randn`, `uniform_`, `multinomial`. While a policy
runs inside `Draws`, each takes the next noise tensor, standard normal or uniform in [0, 1), and
turns it into what was asked for. So TorchRL's own code decides what is done with a number, and
the same numbers give the same action in the policy and in its artifact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from roadworthy.errors import ExportError
from roadworthy.operators.asking import draws

Kind = Literal["normal", "uniform"]
# float32 holds every integer up to here; a uniform float cannot choose among more.
MOST_CHOICES = 2**24


@dataclass(frozen=True, slots=True)
class Draw:
    """One draw that a policy makes: which kind, and the shape and dtype of its noise."""

    kind: Kind
    shape: tuple[int, ...]
    dtype: torch.dtype


class Draws(TorchFunctionMode):
    """Draws inside the block take `noise`, in order; without noise they are listed in `made`."""

    def __init__(self, noise: Sequence[Tensor] | None = None) -> None:
        super().__init__()
        self.made: list[Draw] = []
        self._noise = noise

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        convert = _CONVERTED.get(name)
        if convert is None and draws(name):
            raise ExportError(
                f"the policy draws with torch.{name}, which is not made of normal or uniform noise",
                code="RW143",
                hint="choose exploration='deterministic', or a distribution that draws with "
                "randn, rand, randint, bernoulli, exponential_ or multinomial",
            )
        return convert(self, *args, **kwargs) if convert else func(*args, **kwargs)

    def take(self, kind: Kind, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Noise of that shape."""
        index = len(self.made)
        self.made.append(Draw(kind, tuple(shape), dtype))
        if self._noise is None:
            # Any value that the kind allows will do to see what follows from it.
            return torch.full(tuple(shape), 0.0 if kind == "normal" else 0.5, dtype=dtype)
        if index >= len(self._noise):
            raise ExportError(
                f"the policy draws more than {len(self._noise)} times",
                code="RW143",
                hint="the number of draws may not depend on the values of the inputs",
            )
        return self._noise[index].reshape(tuple(shape))


def _size(*size: Any) -> tuple[int, ...]:
    return tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else size


def _dtype(kwargs: dict[str, Any]) -> torch.dtype:
    return kwargs.get("dtype") or torch.get_default_dtype()


def _randn(draws: Draws, *size: Any, **kwargs: Any) -> Tensor:
    return draws.take("normal", _size(*(size or (kwargs["size"],))), _dtype(kwargs))


def _rand(draws: Draws, *size: Any, **kwargs: Any) -> Tensor:
    return draws.take("uniform", _size(*(size or (kwargs["size"],))), _dtype(kwargs))


def _randn_like(draws: Draws, like: Tensor, **kwargs: Any) -> Tensor:
    return draws.take("normal", like.shape, kwargs.get("dtype") or like.dtype)


def _rand_like(draws: Draws, like: Tensor, **kwargs: Any) -> Tensor:
    return draws.take("uniform", like.shape, kwargs.get("dtype") or like.dtype)


def _normal_(draws: Draws, target: Tensor, mean: float = 0, std: float = 1, **_: Any) -> Tensor:
    return target.copy_(draws.take("normal", target.shape, target.dtype) * std + mean)


def _uniform_(draws: Draws, target: Tensor, *bounds: float, **kwargs: float) -> Tensor:
    low = bounds[0] if bounds else kwargs.get("from", 0.0)
    high = bounds[1] if len(bounds) > 1 else kwargs.get("to", 1.0)
    noise = draws.take("uniform", target.shape, target.dtype)
    return target.copy_(noise * (high - low) + low)


def _normal(draws: Draws, mean: Any = 0.0, std: Any = 1.0, size: Any = None, **kw: Any) -> Tensor:
    tensors = [each for each in (mean, std) if isinstance(each, Tensor)]
    shape = (tensors[0] + tensors[-1]).shape if tensors else size
    dtype = tensors[0].dtype if tensors else _dtype(kw)
    noise: Tensor = draws.take("normal", shape, dtype) * std + mean
    return noise


def _exponential_(draws: Draws, target: Tensor, lambd: float = 1.0, **_: Any) -> Tensor:
    noise = draws.take("uniform", target.shape, target.dtype)
    return target.copy_(-torch.log1p(-noise) / lambd)


def _bernoulli(draws: Draws, probability: Tensor, **_: Any) -> Tensor:
    noise = draws.take("uniform", probability.shape, probability.dtype)
    return (noise < probability).to(probability.dtype)


def _bernoulli_(draws: Draws, target: Tensor, p: Any = 0.5, **_: Any) -> Tensor:
    return target.copy_(draws.take("uniform", target.shape, torch.float32) < p)


def _randint(draws: Draws, *given: Any, **kwargs: Any) -> Tensor:
    bounds = list(given)
    size = kwargs["size"] if "size" in kwargs else bounds.pop()
    high = kwargs["high"] if "high" in kwargs else bounds.pop()
    low = kwargs.get("low", bounds[0] if bounds else 0)
    noise = draws.take("uniform", _size(size), torch.float32)
    return _among(noise, int(low), int(high)).to(kwargs.get("dtype") or torch.int64)


def _among(noise: Tensor, low: int, high: int) -> Tensor:
    if high - low > MOST_CHOICES:
        raise ExportError(
            f"the policy draws one of {high - low} integers; noise can choose among {MOST_CHOICES}",
            code="RW143",
            hint="choose exploration='deterministic', or a smaller action space",
        )
    # The product may round up to the number of choices itself.
    return (noise * (high - low)).floor().clamp(max=high - low - 1) + low


def _multinomial(
    draws: Draws, weights: Tensor, num_samples: int = 1, replacement: bool = False, **_: Any
) -> Tensor:
    """One index per row by the inverse of the cumulative sum; weight 0 is never chosen."""
    if num_samples != 1:
        raise ExportError(
            f"the policy draws {num_samples} samples at once",
            code="RW143",
            hint="export a policy that gives one action for each observation",
        )
    noise = draws.take("uniform", (*weights.shape[:-1], 1), weights.dtype)
    cumulative = weights.cumsum(-1)
    index = (cumulative <= noise * cumulative[..., -1:]).sum(-1, keepdim=True)
    # Below 1 the noise always finds one; a caller's own noise may be anything.
    return index.clamp(max=weights.shape[-1] - 1)


_CONVERTED: dict[str, Callable[..., Tensor]] = {
    "randn": _randn, "randn_like": _randn_like, "normal": _normal, "normal_": _normal_,
    "rand": _rand, "rand_like": _rand_like, "uniform_": _uniform_, "randint": _randint,
    "bernoulli": _bernoulli, "bernoulli_": _bernoulli_, "exponential_": _exponential_,
    "multinomial": _multinomial,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Noise:
    """A noise port: the draw it feeds, and the shape of one row."""

    name: str
    kind: Kind
    row: tuple[int, ...]
    dtype: torch.dtype

    def example(self) -> Tensor:
        """A value for one row, the same every time."""
        value = 0.25 if self.kind == "normal" else 0.5
        return torch.full((1, *self.row), value, dtype=self.dtype)


def noise_ports(few: Sequence[Draw], more: Sequence[Draw], rows: tuple[int, int]) -> list[Noise]:
    """The noise ports of a policy that made these draws with two numbers of rows."""
    names = ["noise"] if len(few) == 1 else [f"noise_{index}" for index in range(len(few))]
    if [(d.kind, d.dtype) for d in few] != [(d.kind, d.dtype) for d in more]:
        raise ExportError(
            f"the policy draws {len(few)} times for {rows[0]} rows and {len(more)} times for "
            f"{rows[1]}",
            code="RW143",
            hint="draw with one call for all rows",
        )
    found = []
    for name, one, other in zip(names, few, more, strict=True):
        sizes = math.prod(one.shape), math.prod(other.shape)
        if sizes[0] % rows[0] or sizes[0] // rows[0] * rows[1] != sizes[1]:
            raise ExportError(
                f"a draw of shape {one.shape} for {rows[0]} rows is shared between the rows",
                code="RW143",
                hint="draw one value for each row: torch.rand(tensordict.shape)",
            )
        row = one.shape[1:] if len(one.shape) > 1 and one.shape[0] == rows[0] else ()
        found.append(Noise(name, one.kind, row or (sizes[0] // rows[0],), one.dtype))
    return found
