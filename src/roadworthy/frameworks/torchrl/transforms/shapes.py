"""Transforms that move elements, or keys, and computation nothing new."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import torch
from tensordict import unravel_key
from torch import Tensor

from roadworthy.frameworks.torchrl.keys import NestedKey, is_within
from roadworthy.frameworks.torchrl.transforms.key_rule import (
    Apply,
    Computation,
    Function,
    KeyRule,
    PlacedTransform,
    RuleBuilder,
)


def flatten(placed: PlacedTransform) -> Iterator[KeyRule]:
    """Rules that flatten neighbouring axes of a row."""

    def function() -> Function:
        first, last = (
            placed.dim(placed.transform._first_dim),
            placed.dim(placed.transform._last_dim),
        )
        return lambda x: x.flatten(placed.axis(x, first), placed.axis(x, last))

    yield from placed.forward_rules(function)


def _unsqueezed(placed: PlacedTransform) -> Function:
    dim = placed.dim(placed.transform._dim)
    return lambda x: x.unsqueeze(placed.axis(x, dim, added=1))


def _squeezed(placed: PlacedTransform) -> Function:
    dim = placed.dim(placed.transform._dim)
    return lambda x: x.squeeze(placed.axis(x, dim))


def _permuted(dims: list[int]) -> Function:
    return lambda x: x.permute(*range(x.ndim - len(dims)), *dims)


def _in_order(placed: PlacedTransform) -> Function:
    return _permuted(list(placed.transform.dims))


def _back_in_order(placed: PlacedTransform) -> Function:
    return _permuted(list(placed.transform._invert_permute(placed.transform.dims)))


def _of_one_kind(tensors: tuple[Tensor, ...]) -> list[Tensor]:
    """The tensors in the dtype that torch would promote them to."""
    dtype = tensors[0].dtype
    for tensor in tensors[1:]:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return [tensor.to(dtype) for tensor in tensors]


def cat_tensors(placed: PlacedTransform) -> Iterator[KeyRule]:
    """A rule that joins all in_keys along an axis."""
    transform = placed.transform
    if not transform._initialized:
        placed.require_environment(
            "finds its in_keys in an environment", otherwise="CatTensors(in_keys=[…])"
        )
        transform.in_keys = transform._find_in_keys()
        transform._initialized = True
    dim = transform.dim
    # TorchRL joins along this very dim, so a positive one counts the axes of the batch too.
    row_dim = dim if dim < 0 else dim - placed.batch_dims

    def joined(*tensors: Tensor) -> Tensor:
        parts = _of_one_kind(tensors)
        if transform.unsqueeze_if_oor:
            index = dim if dim > 0 else -dim - 1
            parts = [x if index < x.ndim - 1 else x.unsqueeze(-1 if dim > 0 else 1) for x in parts]
        return torch.cat(parts, placed.axis(parts[0], row_dim))

    def computation() -> Computation:
        if transform.unsqueeze_if_oor and placed.batch_dims:
            raise placed.refused(
                "has unsqueeze_if_oor=True, which adds an axis in front of a batch",
                hint="use UnsqueezeTransform(dim=-1) before it",
            )
        return Apply(joined), {}

    gone = [key for key in transform.in_keys if key != transform.out_keys[0]]
    yield _several(placed, computation, gone if transform._del_keys else [])


def stack(placed: PlacedTransform) -> Iterator[KeyRule]:
    """A rule that stacks all in_keys along a new axis."""
    transform = placed.transform
    dim = transform.dim if transform.dim < 0 else transform.dim - placed.batch_dims

    def stacked(*tensors: Tensor) -> Tensor:
        parts = _of_one_kind(tensors)
        return torch.stack(parts, placed.axis(parts[0], dim, added=1))

    gone = list(transform.in_keys) if transform._del_keys else []
    yield _several(placed, lambda: (Apply(stacked), {}), gone)


def stack_inverse(placed: PlacedTransform) -> Iterator[KeyRule]:
    """TorchRL's Stack, alone, reads in_keys_inv and writes out_keys_inv."""
    transform = placed.transform
    dim = transform.dim if transform.dim < 0 else transform.dim - placed.batch_dims
    if transform.in_keys_inv:
        yield KeyRule(
            reads=tuple(transform.in_keys_inv),
            writes=tuple(transform.out_keys_inv),
            computation=lambda: (Apply(lambda x: x.unbind(placed.axis(x, dim))), {}),
            removes=lambda key: key == transform.in_keys_inv[0],
        )


def _several(
    placed: PlacedTransform, computation: Callable[[], Computation], gone: list[NestedKey]
) -> KeyRule:
    transform = placed.transform
    return KeyRule(
        reads=tuple(transform.in_keys),
        writes=tuple(transform.out_keys),
        computation=computation,
        removes=lambda key: key in gone,
    )


def expand_as(placed: PlacedTransform) -> Iterator[KeyRule]:
    """A rule that repeats a value until it has the shape of another."""
    transform = placed.transform

    def expanded(value: Tensor, reference: Tensor) -> Tensor:
        return value.reshape(*value.shape, *[1] * (reference.ndim - value.ndim)).expand_as(
            reference
        )

    yield KeyRule(
        reads=(transform.in_key, transform.ref_key),
        writes=(transform.out_key,),
        computation=lambda: (Apply(expanded), {}),
    )


def _function(placed: PlacedTransform, function: Function) -> Function:
    # In an environment without a batch the function has only ever seen single rows.
    return function if placed.batch_dims else torch.vmap(function, randomness="error")


def unary(placed: PlacedTransform) -> Iterator[KeyRule]:
    """Rules that apply the user's function to each key."""
    yield from placed.forward_rules(lambda: _function(placed, placed.transform._fn))


def unary_inverse(placed: PlacedTransform) -> Iterator[KeyRule]:
    """Rules that apply the user's inverse function to each key."""
    transform = placed.transform
    yield from placed.inverse_rules(lambda: _function(placed, transform._inv_fn or transform._fn))


def _same(x: Tensor) -> Tensor:
    # An output may not be an input itself: a graph has one name for each.
    return x.clone()


def rename(placed: PlacedTransform) -> Iterator[KeyRule]:
    """Rules that give observations other keys."""
    yield from _renamed(placed, placed.transform.in_keys, placed.transform.out_keys)


def rename_inverse(placed: PlacedTransform) -> Iterator[KeyRule]:
    """Rules that give actions the keys of the environment."""
    yield from _renamed(placed, placed.transform.out_keys_inv, placed.transform.in_keys_inv)


def _nothing(above: NestedKey, key: NestedKey) -> bool:
    return False


def _beneath(above: NestedKey, key: NestedKey) -> bool:
    return is_within(key, above)


def _renamed(
    placed: PlacedTransform, reads: list[NestedKey], writes: list[NestedKey]
) -> Iterator[KeyRule]:
    kept = placed.transform.create_copy
    for read, write in zip(reads, writes, strict=True):
        yield KeyRule(
            reads=(read,),
            writes=(write,),
            computation=lambda: (Apply(_same), {}),
            removes=partial(_nothing if kept else _beneath, read),
        )


def exclude(placed: PlacedTransform) -> Iterator[KeyRule]:
    """A rule that removes the excluded keys."""
    excluded = placed.transform.excluded_keys
    if placed.transform.inverse:
        raise placed.refused(
            "has inverse=True, which gives the environment's reset back unread",
            hint="leave it out of the transforms, and write only what the environment takes",
        )
    yield KeyRule(removes=lambda key: any(is_within(key, each) for each in excluded))


def select(placed: PlacedTransform) -> Iterator[KeyRule]:
    """A rule that removes all but the selected keys."""
    transform, parent = placed.transform, placed.transform.parent
    kept = [unravel_key(key) for key in transform.selected_keys]
    if transform.keep_reward_keys:
        kept += parent.reward_keys if parent is not None else ["reward"]
    if transform.keep_done_keys:
        kept += parent.done_keys if parent is not None else ["done"]
    if parent is not None:
        kept += parent.state_spec.keys(True, True)
    # Selecting a parent is not enough: TorchRL drops its leaves from the spec, and then hands the
    # policy the first of them for ever.
    yield KeyRule(removes=lambda key: key not in kept)


def device(placed: PlacedTransform) -> Iterator[KeyRule]:
    """Rules for observations that get another key; devices are the business of the runtime."""
    transform = placed.transform
    for read, write in zip(transform.in_keys, transform.out_keys, strict=True):
        if read != write:
            yield KeyRule(reads=(read,), writes=(write,), computation=lambda: (Apply(_same), {}))


def device_inverse(placed: PlacedTransform) -> Iterator[KeyRule]:
    """No rules: actions stay where the runtime has them."""
    transform = placed.transform
    if list(transform.in_keys_inv) != list(transform.out_keys_inv):
        raise placed.refused(
            "renames keys on their way to the environment",
            hint="use DeviceCastTransform without keys, and RenameTransform for the names",
        )
    yield from ()


OBSERVATION: Mapping[str, RuleBuilder] = {
    "CatTensors": cat_tensors,
    "DeviceCastTransform": device,
    "ExcludeTransform": exclude,
    "ExpandAs": expand_as,
    "FlattenObservation": flatten,
    "PermuteTransform": lambda placed: placed.forward_rules(lambda: _in_order(placed)),
    "RenameTransform": rename,
    "SelectTransform": select,
    "SqueezeTransform": lambda placed: placed.forward_rules(lambda: _squeezed(placed)),
    "Stack": stack,
    "UnaryTransform": unary,
    "UnsqueezeTransform": lambda placed: placed.forward_rules(lambda: _unsqueezed(placed)),
}
ACTION: Mapping[str, RuleBuilder] = {
    "DeviceCastTransform": device_inverse,
    "PermuteTransform": lambda placed: placed.inverse_rules(lambda: _back_in_order(placed)),
    "RenameTransform": rename_inverse,
    "SqueezeTransform": lambda placed: placed.inverse_rules(lambda: _unsqueezed(placed)),
    "Stack": stack_inverse,
    "UnaryTransform": unary_inverse,
    "UnsqueezeTransform": lambda placed: placed.inverse_rules(lambda: _squeezed(placed)),
}
