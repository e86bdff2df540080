"""Transforms that scale, shift, clip or cast: constants, element by element."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from tensordict import unravel_key
from torch import Tensor, nn

from roadworthy.frameworks.torchrl.keys import NestedKey, key_path
from roadworthy.frameworks.torchrl.transforms.key_rule import (
    Apply,
    Computation,
    Function,
    KeyRule,
    PlacedTransform,
    RuleBuilder,
    aligned,
)


def standardized(x: Tensor, loc: Tensor, scale: Tensor) -> Tensor:
    """`(x - loc) / scale`, row by row."""
    return (aligned(aligned(x, loc), scale) - loc) / scale


def scaled(x: Tensor, loc: Tensor, scale: Tensor) -> Tensor:
    """`x * scale + loc`, row by row."""
    return aligned(aligned(x, loc), scale) * scale + loc


def _statistics(placed: PlacedTransform) -> tuple[Tensor, Tensor]:
    loc, scale = placed.transform.loc, placed.transform.scale
    if isinstance(loc, nn.UninitializedBuffer) or isinstance(scale, nn.UninitializedBuffer):
        raise placed.refused(
            "has no statistics yet", code="RW151", hint="call its init_stats(num_iter=…) first"
        )
    return placed.row(loc), placed.row(scale)


def observation_norm(placed: PlacedTransform) -> Iterator[KeyRule]:
    """Rules that scale observations, in the direction that the transform says."""
    # The flag is a tensor in TorchRL; as a Python bool it decides before the capture, not in it.
    standard = bool(placed.transform.standard_normal)
    yield from placed.forward_rules(
        lambda: standardized if standard else scaled, lambda: _statistics(placed)
    )


def observation_norm_inverse(placed: PlacedTransform) -> Iterator[KeyRule]:
    """Rules that scale actions back."""
    standard = bool(placed.transform.standard_normal)
    yield from placed.inverse_rules(
        lambda: scaled if standard else standardized, lambda: _statistics(placed)
    )


def _frozen(placed: PlacedTransform, key: NestedKey, loc: Tensor, scale: Tensor) -> Computation:
    loc, scale = placed.row(loc), placed.row(scale)
    if not (torch.isfinite(loc).all() and torch.isfinite(scale).all()):
        raise _without_statistics(placed, key)
    return Apply(standardized, loc, scale), {}


def _without_statistics(placed: PlacedTransform, key: NestedKey) -> Exception:
    return placed.refused(
        f"has seen no {key!r} yet, so its statistics are not known",
        code="RW151",
        hint="step the environment, or load the state_dict of the transform",
    )


def vec_norm(placed: PlacedTransform) -> Iterator[KeyRule]:
    """Constants of the statistics as they are now; the formula is that of a frozen VecNorm."""
    transform = placed.transform

    def computation(key: NestedKey) -> Computation:
        *above, last = key_path(key)
        names = [(*above, last + end) for end in ("_sum", "_ssq", "_count")]
        held = transform._td
        if held is None or any(unravel_key(name) not in held.keys(True) for name in names):
            raise _without_statistics(placed, key)
        total, squares, count = (held.get(name) for name in names)
        mean = total / count
        std = (squares / count - mean.pow(2)).clamp_min(transform.eps).sqrt()
        return _frozen(placed, key, mean, std.clamp_min(transform.eps))

    yield from placed.rules_by_key(computation)


def vec_norm_v2(placed: PlacedTransform) -> Iterator[KeyRule]:
    """Constants of the statistics as they are now, where the transform keeps them itself."""
    transform = placed.transform

    def computation(key: NestedKey) -> Computation:
        if not transform.stateful:
            raise placed.refused(
                "keeps its statistics in the data and moves them at every step",
                hint="train with stateful=True, whose statistics can be frozen",
            )
        if transform._loc is None or transform._loc.get(key, None) is None:
            raise _without_statistics(placed, key)
        loc, scale = transform._get_loc_scale()
        return _frozen(placed, key, loc.get(key), scale.get(key))

    # A stateless one appends the keys of its statistics to in_keys.
    yield from placed.rules_by_key(computation, transform._in_keys_safe)


def action_scaling(placed: PlacedTransform) -> Iterator[KeyRule]:
    """Rules from the normalized action to the bounds of the environment."""
    transform = placed.transform

    def denormalized(action: Tensor, loc: Tensor, scale: Tensor) -> Tensor:
        if not transform.standard_normal:
            action = action * 2 - 1
        return scaled(action, loc, scale)

    def constants() -> tuple[Tensor, Tensor]:
        if not transform.initialized:
            placed.require_environment(
                "takes its bounds from an environment", otherwise="ActionScaling(loc=…, scale=…)"
            )
        transform._ensure_initialized()
        return placed.row(transform.loc), placed.row(transform.scale)

    yield from placed.inverse_rules(lambda: denormalized, constants)


def _clip(placed: PlacedTransform) -> tuple[Tensor, ...]:
    return tuple(each for each in (placed.transform.low, placed.transform.high) if each is not None)


def _clipped(placed: PlacedTransform) -> Function:
    if placed.transform.low is None:
        return torch.clamp_max
    return torch.clamp_min if placed.transform.high is None else torch.clamp


def cast(placed: PlacedTransform) -> Iterator[KeyRule]:
    """Rules that cast observations to another dtype."""
    _keys_known(placed, placed.transform.in_keys, "in_keys")
    yield from placed.forward_rules(lambda: lambda x: x.to(placed.transform.dtype_out))


def cast_inverse(placed: PlacedTransform) -> Iterator[KeyRule]:
    """Rules that cast actions back."""
    _keys_known(placed, placed.transform.in_keys_inv, "in_keys_inv")
    yield from placed.inverse_rules(lambda: lambda x: x.to(placed.transform.dtype_in))


def _keys_known(placed: PlacedTransform, keys: object, name: str) -> None:
    if keys is None:
        raise placed.refused(
            f"has no {name}, and without an environment nothing says which keys it casts",
            code="RW151",
            hint=f"pass the environment, or {placed.name}({name}=[…])",
        )


OBSERVATION: Mapping[str, RuleBuilder] = {
    "ClipTransform": lambda placed: placed.forward_rules(
        lambda: _clipped(placed), lambda: _clip(placed)
    ),
    "DTypeCastTransform": cast,
    "DoubleToFloat": cast,
    "ObservationNorm": observation_norm,
    "VecNorm": vec_norm,
    "VecNormV2": vec_norm_v2,
}
ACTION: Mapping[str, RuleBuilder] = {
    "ActionScaling": action_scaling,
    "ClipTransform": lambda placed: placed.inverse_rules(
        lambda: _clipped(placed), lambda: _clip(placed)
    ),
    "DTypeCastTransform": cast_inverse,
    "DoubleToFloat": cast_inverse,
    "ObservationNorm": observation_norm_inverse,
}
