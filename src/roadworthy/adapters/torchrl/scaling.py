"""Transforms that scale, shift, clip or cast: constants, element by element."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import torch
from torch import Tensor, nn

from roadworthy.adapters.torchrl.piece import (
    Apply,
    Builder,
    Function,
    Made,
    Piece,
    Place,
    aligned,
    words,
)
from roadworthy.adapters.torchrl.stage import NestedKey


def standardized(x: Tensor, loc: Tensor, scale: Tensor) -> Tensor:
    return (aligned(aligned(x, loc), scale) - loc) / scale


def scaled(x: Tensor, loc: Tensor, scale: Tensor) -> Tensor:
    return aligned(aligned(x, loc), scale) * scale + loc


def _statistics(place: Place) -> tuple[Tensor, Tensor]:
    loc, scale = place.transform.loc, place.transform.scale
    if isinstance(loc, nn.UninitializedBuffer) or isinstance(scale, nn.UninitializedBuffer):
        raise place.refused(
            "has no statistics yet", code="RW151", hint="call its init_stats(num_iter=…) first"
        )
    return place.row(loc), place.row(scale)


def observation_norm(place: Place) -> Iterator[Piece]:
    # The flag is a tensor in TorchRL; as a Python bool it decides before the capture, not in it.
    standard = bool(place.transform.standard_normal)
    yield from place.unary(lambda: standardized if standard else scaled, lambda: _statistics(place))


def observation_norm_inverse(place: Place) -> Iterator[Piece]:
    standard = bool(place.transform.standard_normal)
    yield from place.unary_inverse(
        lambda: scaled if standard else standardized, lambda: _statistics(place)
    )


def _frozen(place: Place, key: NestedKey, loc: Tensor, scale: Tensor) -> Made:
    loc, scale = place.row(loc), place.row(scale)
    if not (torch.isfinite(loc).all() and torch.isfinite(scale).all()):
        raise _without_statistics(place, key)
    return Apply(standardized, loc, scale), {}


def _without_statistics(place: Place, key: NestedKey) -> Exception:
    return place.refused(
        f"has seen no {key!r} yet, so its statistics are not known",
        code="RW151",
        hint="step the environment, or load the state_dict of the transform",
    )


def vec_norm(place: Place) -> Iterator[Piece]:
    """Constants of the statistics as they are now; the formula is that of a frozen VecNorm."""
    transform = place.transform

    def make(key: NestedKey) -> Made:
        *above, last = words(key)
        names = [(*above, last + end) for end in ("_sum", "_ssq", "_count")]
        held = transform._td
        if held is None or any(name not in held.keys(True) for name in _plain(names)):
            raise _without_statistics(place, key)
        total, squares, count = (held.get(name) for name in names)
        mean = total / count
        std = (squares / count - mean.pow(2)).clamp_min(transform.eps).sqrt()
        return _frozen(place, key, mean, std.clamp_min(transform.eps))

    for key, out_key in zip(transform.in_keys, transform.out_keys, strict=True):
        yield Piece(reads=(key,), writes=(out_key,), make=partial(make, key))


def vec_norm_v2(place: Place) -> Iterator[Piece]:
    transform = place.transform

    def make(key: NestedKey) -> Made:
        if not transform.stateful:
            raise place.refused(
                "keeps its statistics in the data and moves them at every step",
                hint="train with stateful=True, whose statistics can be frozen",
            )
        if transform._loc is None or transform._loc.get(key, None) is None:
            raise _without_statistics(place, key)
        loc, scale = transform._get_loc_scale()
        return _frozen(place, key, loc.get(key), scale.get(key))

    # A stateless one appends the keys of its statistics to in_keys.
    for key, out_key in zip(transform._in_keys_safe, transform.out_keys, strict=False):
        yield Piece(reads=(key,), writes=(out_key,), make=partial(make, key))


def action_scaling(place: Place) -> Iterator[Piece]:
    transform = place.transform

    def denormalized(action: Tensor, loc: Tensor, scale: Tensor) -> Tensor:
        if not transform.standard_normal:
            action = action * 2 - 1
        return scaled(action, loc, scale)

    def constants() -> tuple[Tensor, Tensor]:
        if not transform.initialized and not place.in_environment:
            raise place.refused(
                "takes its bounds from an environment, and there is none",
                code="RW151",
                hint="pass the environment, or ActionScaling(loc=…, scale=…)",
            )
        transform._ensure_initialized()
        return place.row(transform.loc), place.row(transform.scale)

    yield from place.unary_inverse(lambda: denormalized, constants)


def _clip(place: Place) -> tuple[Tensor, ...]:
    return tuple(each for each in (place.transform.low, place.transform.high) if each is not None)


def _clipped(place: Place) -> Function:
    if place.transform.low is None:
        return torch.clamp_max
    return torch.clamp_min if place.transform.high is None else torch.clamp


def cast(place: Place) -> Iterator[Piece]:
    _keys_known(place, place.transform.in_keys, "in_keys")
    yield from place.unary(lambda: lambda x: x.to(place.transform.dtype_out))


def cast_inverse(place: Place) -> Iterator[Piece]:
    _keys_known(place, place.transform.in_keys_inv, "in_keys_inv")
    yield from place.unary_inverse(lambda: lambda x: x.to(place.transform.dtype_in))


def _keys_known(place: Place, keys: object, name: str) -> None:
    if keys is None:
        raise place.refused(
            f"has no {name}, and without an environment nothing says which keys it casts",
            code="RW151",
            hint=f"pass the environment, or {place.name}({name}=[…])",
        )


OBSERVATION: Mapping[str, Builder] = {
    "ClipTransform": lambda place: place.unary(lambda: _clipped(place), lambda: _clip(place)),
    "DTypeCastTransform": cast,
    "DoubleToFloat": cast,
    "ObservationNorm": observation_norm,
    "VecNorm": vec_norm,
    "VecNormV2": vec_norm_v2,
}
ACTION: Mapping[str, Builder] = {
    "ActionScaling": action_scaling,
    "ClipTransform": lambda place: place.unary_inverse(
        lambda: _clipped(place), lambda: _clip(place)
    ),
    "DTypeCastTransform": cast_inverse,
    "DoubleToFloat": cast_inverse,
    "ObservationNorm": observation_norm_inverse,
}


def _plain(names: list[tuple[str, ...]]) -> list[NestedKey]:
    return [name[0] if len(name) == 1 else name for name in names]
