"""What surrounds a network: normalisers before it, action steps after it, as tagged data.

Normalisers differ in where epsilon goes and whether they clip, so each formula is a type of
its own and the formula is its name. Action steps are applied in the order in which they are
listed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from roadworthy.errors import Finding, UsageError
from roadworthy.spec.port import Numbers, Scalar, Values, freeze, jsonable, leaves, shape_of
from roadworthy.spec.signature import limit_problems


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tagged:
    """Fields frozen into tuples, problems raised together, JSON with the type's name as tag."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (value is None or isinstance(value, Scalar) or _is_word(value)):
                object.__setattr__(self, field.name, _frozen(value))
        problems = list(self._problems())
        if problems:
            raise UsageError(findings=problems)

    def _problems(self) -> Iterator[Finding]:
        yield from ()

    def _problem(self, what: str) -> Finding:
        return Finding(code="RW030", where=type(self).__name__, what=what)

    def to_json(self) -> dict[str, Any]:
        values = {field.name: jsonable(getattr(self, field.name)) for field in fields(self)}
        return {"kind": type(self).__name__, **values}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Normalizer(_Tagged):
    def _statistics_problems(self, mean: Values, spread: Values, eps: float) -> Iterator[Finding]:
        shapes = shape_of(mean), shape_of(spread)
        if None in shapes or shapes[0] != shapes[1]:
            yield self._problem(f"the statistics have different shapes: {shapes[0]}, {shapes[1]}")
        if not list(leaves(spread)):
            yield self._problem("the statistics are empty")
            return
        if not all(math.isfinite(number) for number in (*leaves(mean), *leaves(spread), eps)):
            yield self._problem("the statistics are NaN or infinite")
        elif min(leaves(spread)) + eps <= 0:
            yield self._problem("a spread plus eps is 0 or less: the formula would divide by zero")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpsInsideRoot(_Normalizer):
    """`clip((x - mean) / sqrt(var + eps), ±clip)`: SB3 (1e-8, 10), rl_games (1e-5, 5)."""

    mean: Numbers
    var: Numbers
    eps: float
    clip: float | None = None

    def _problems(self) -> Iterator[Finding]:
        yield from self._statistics_problems(self.mean, self.var, self.eps)
        yield from _clip_problems(self, self.clip)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpsOutsideRoot(_Normalizer):
    """`clip((x - mean) / (std + eps), ±clip)`: rsl_rl (1e-2, no clip), skrl (1e-8, 5)."""

    mean: Numbers
    std: Numbers
    eps: float
    clip: float | None = None

    def _problems(self) -> Iterator[Finding]:
        yield from self._statistics_problems(self.mean, self.std, self.eps)
        yield from _clip_problems(self, self.clip)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tanh(_Tagged):
    """`tanh(a)`: the squash of a squashed Gaussian's mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleOffset(_Tagged):
    """`a * scale + offset`: joint targets around a default pose."""

    scale: Numbers = 1.0
    offset: Numbers = 0.0

    def _problems(self) -> Iterator[Finding]:
        if not all(math.isfinite(n) for n in (*leaves(self.scale), *leaves(self.offset))):
            yield self._problem("scale and offset must be finite")
        if any(number == 0 for number in leaves(self.scale)):
            yield self._problem("a scale of 0 would switch an action off")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleToBounds(_Tagged):
    """`low + (a + 1) / 2 * (high - low)`: from [-1, 1] to the bounds of the environment."""

    low: Numbers
    high: Numbers

    def _problems(self) -> Iterator[Finding]:
        yield from limit_problems(self.low, self.high, where=type(self).__name__)
        if not all(math.isfinite(n) for n in (*leaves(self.low), *leaves(self.high))):
            yield self._problem("the bounds must be finite")


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip(_Tagged):
    """`clip(a, low, high)`: the limits of what is commanded."""

    low: Numbers
    high: Numbers

    def _problems(self) -> Iterator[Finding]:
        yield from limit_problems(self.low, self.high, where=type(self).__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Argmax(_Tagged):
    """The index of the largest logit. `mask` names a bool input that forbids actions (False).

    `table` says what each index means to the environment (names, or action codes).
    """

    table: tuple[str | int, ...] = ()
    mask: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiDiscrete(_Tagged):
    """One index per group of logits, `sizes` long each; `mask` as in `Argmax`, over all logits."""

    sizes: tuple[int, ...]
    mask: str | None = None

    def _problems(self) -> Iterator[Finding]:
        if not self.sizes or min(self.sizes) < 2:
            yield self._problem(f"every group needs at least two choices, got {self.sizes}")


Normalizer = EpsInsideRoot | EpsOutsideRoot
ActionStep = Tanh | ScaleOffset | ScaleToBounds | Clip | Argmax | MultiDiscrete

_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        EpsInsideRoot, EpsOutsideRoot,
        Tanh, ScaleOffset, ScaleToBounds, Clip, Argmax, MultiDiscrete,
    )
}  # fmt: skip


def tagged(data: Mapping[str, Any]) -> Any:
    """The normaliser or action step that `to_json` wrote."""
    values = dict(data)
    return _KINDS[values.pop("kind")](**values)


def _frozen(value: Any) -> Any:
    if isinstance(value, (list, tuple)) and any(_is_word(each) for each in value):
        return tuple(value)
    return freeze(value)


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and value not in ("inf", "-inf")


def _clip_problems(owner: _Tagged, clip: float | None) -> Iterator[Finding]:
    if clip is not None and not clip > 0:
        yield owner._problem(f"clip must be positive, got {clip}")
