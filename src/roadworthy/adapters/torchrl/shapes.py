"""Transforms that move elements, or keys, and compute nothing new."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import torch
from torch import Tensor

from roadworthy.adapters.torchrl.piece import (
    Apply,
    Builder,
    Function,
    Made,
    Piece,
    Place,
    below,
    plain,
)
from roadworthy.adapters.torchrl.stage import NestedKey


def flatten(place: Place) -> Iterator[Piece]:
    def function() -> Function:
        first, last = place.dim(place.transform._first_dim), place.dim(place.transform._last_dim)
        return lambda x: x.flatten(place.axis(x, first), place.axis(x, last))

    yield from place.unary(function)


def _unsqueezed(place: Place) -> Function:
    dim = place.dim(place.transform._dim)
    return lambda x: x.unsqueeze(place.axis(x, dim, added=1))


def _squeezed(place: Place) -> Function:
    dim = place.dim(place.transform._dim)
    return lambda x: x.squeeze(place.axis(x, dim))


def _permuted(dims: list[int]) -> Function:
    return lambda x: x.permute(*range(x.ndim - len(dims)), *dims)


def _in_order(place: Place) -> Function:
    return _permuted(list(place.transform.dims))


def _back_in_order(place: Place) -> Function:
    return _permuted(list(place.transform._invert_permute(place.transform.dims)))


def _of_one_kind(tensors: tuple[Tensor, ...]) -> list[Tensor]:
    """The tensors in the dtype that torch would promote them to."""
    dtype = tensors[0].dtype
    for tensor in tensors[1:]:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return [tensor.to(dtype) for tensor in tensors]


def cat_tensors(place: Place) -> Iterator[Piece]:
    transform = place.transform
    if not transform._initialized:
        if not place.in_environment:
            raise place.refused(
                "finds its in_keys in an environment, and there is none",
                code="RW151",
                hint="pass the environment, or CatTensors(in_keys=[…])",
            )
        transform.in_keys = transform._find_in_keys()
        transform._initialized = True
    dim = transform.dim
    # TorchRL joins along this very dim, so a positive one counts the axes of the batch too.
    row_dim = dim if dim < 0 else dim - place.batch_dims

    def joined(*tensors: Tensor) -> Tensor:
        parts = _of_one_kind(tensors)
        if transform.unsqueeze_if_oor:
            index = dim if dim > 0 else -dim - 1
            parts = [x if index < x.ndim - 1 else x.unsqueeze(-1 if dim > 0 else 1) for x in parts]
        return torch.cat(parts, place.axis(parts[0], row_dim))

    def make() -> Made:
        if transform.unsqueeze_if_oor and place.batch_dims:
            raise place.refused(
                "has unsqueeze_if_oor=True, which adds an axis in front of a batch",
                hint="use UnsqueezeTransform(dim=-1) before it",
            )
        return Apply(joined), {}

    gone = [key for key in transform.in_keys if key != transform.out_keys[0]]
    yield _several(place, make, gone if transform._del_keys else [])


def stack(place: Place) -> Iterator[Piece]:
    transform = place.transform
    dim = transform.dim if transform.dim < 0 else transform.dim - place.batch_dims

    def stacked(*tensors: Tensor) -> Tensor:
        parts = _of_one_kind(tensors)
        return torch.stack(parts, place.axis(parts[0], dim, added=1))

    gone = list(transform.in_keys) if transform._del_keys else []
    yield _several(place, lambda: (Apply(stacked), {}), gone)


def stack_inverse(place: Place) -> Iterator[Piece]:
    """TorchRL's Stack, alone, reads in_keys_inv and writes out_keys_inv."""
    transform = place.transform
    dim = transform.dim if transform.dim < 0 else transform.dim - place.batch_dims
    if transform.in_keys_inv:
        yield Piece(
            reads=tuple(transform.in_keys_inv),
            writes=tuple(transform.out_keys_inv),
            make=lambda: (Apply(lambda x: x.unbind(place.axis(x, dim))), {}),
            removes=lambda key: key == transform.in_keys_inv[0],
        )


def _several(place: Place, make: Callable[[], Made], gone: list[NestedKey]) -> Piece:
    transform = place.transform
    return Piece(
        reads=tuple(transform.in_keys),
        writes=tuple(transform.out_keys),
        make=make,
        removes=lambda key: key in gone,
    )


def expand_as(place: Place) -> Iterator[Piece]:
    transform = place.transform

    def expanded(value: Tensor, reference: Tensor) -> Tensor:
        return value.reshape(*value.shape, *[1] * (reference.ndim - value.ndim)).expand_as(
            reference
        )

    yield Piece(
        reads=(transform.in_key, transform.ref_key),
        writes=(transform.out_key,),
        make=lambda: (Apply(expanded), {}),
    )


def _function(place: Place, function: Function) -> Function:
    # In an environment without a batch the function has only ever seen single rows.
    return function if place.batch_dims else torch.vmap(function, randomness="error")


def unary(place: Place) -> Iterator[Piece]:
    yield from place.unary(lambda: _function(place, place.transform._fn))


def unary_inverse(place: Place) -> Iterator[Piece]:
    transform = place.transform
    yield from place.unary_inverse(lambda: _function(place, transform._inv_fn or transform._fn))


def _same(x: Tensor) -> Tensor:
    # An output may not be an input itself: a graph has one name for each.
    return x.clone()


def rename(place: Place) -> Iterator[Piece]:
    yield from _renamed(place, place.transform.in_keys, place.transform.out_keys)


def rename_inverse(place: Place) -> Iterator[Piece]:
    yield from _renamed(place, place.transform.out_keys_inv, place.transform.in_keys_inv)


def _nothing(above: NestedKey, key: NestedKey) -> bool:
    return False


def _beneath(above: NestedKey, key: NestedKey) -> bool:
    return below(key, above)


def _renamed(place: Place, reads: list[NestedKey], writes: list[NestedKey]) -> Iterator[Piece]:
    kept = place.transform.create_copy
    for read, write in zip(reads, writes, strict=True):
        yield Piece(
            reads=(read,),
            writes=(write,),
            make=lambda: (Apply(_same), {}),
            removes=partial(_nothing if kept else _beneath, read),
        )


def exclude(place: Place) -> Iterator[Piece]:
    excluded = place.transform.excluded_keys
    if place.transform.inverse:
        raise place.refused(
            "has inverse=True, which gives the environment's reset back unread",
            hint="leave it out of the transforms, and write only what the environment takes",
        )
    yield Piece(removes=lambda key: any(below(key, each) for each in excluded))


def select(place: Place) -> Iterator[Piece]:
    transform, parent = place.transform, place.transform.parent
    kept = [plain(key) for key in transform.selected_keys]
    if transform.keep_reward_keys:
        kept += parent.reward_keys if parent is not None else ["reward"]
    if transform.keep_done_keys:
        kept += parent.done_keys if parent is not None else ["done"]
    if parent is not None:
        kept += parent.state_spec.keys(True, True)
    # Selecting a parent is not enough: TorchRL drops its leaves from the spec, and then hands the
    # policy the first of them for ever.
    yield Piece(removes=lambda key: key not in kept)


def device(place: Place) -> Iterator[Piece]:
    transform = place.transform
    for read, write in zip(transform.in_keys, transform.out_keys, strict=True):
        if read != write:
            yield Piece(reads=(read,), writes=(write,), make=lambda: (Apply(_same), {}))


def device_inverse(place: Place) -> Iterator[Piece]:
    transform = place.transform
    if list(transform.in_keys_inv) != list(transform.out_keys_inv):
        raise place.refused(
            "renames keys on their way to the environment",
            hint="use DeviceCastTransform without keys, and RenameTransform for the names",
        )
    yield from ()


OBSERVATION: Mapping[str, Builder] = {
    "CatTensors": cat_tensors,
    "DeviceCastTransform": device,
    "ExcludeTransform": exclude,
    "ExpandAs": expand_as,
    "FlattenObservation": flatten,
    "PermuteTransform": lambda place: place.unary(lambda: _in_order(place)),
    "RenameTransform": rename,
    "SelectTransform": select,
    "SqueezeTransform": lambda place: place.unary(lambda: _squeezed(place)),
    "Stack": stack,
    "UnaryTransform": unary,
    "UnsqueezeTransform": lambda place: place.unary(lambda: _unsqueezed(place)),
}
ACTION: Mapping[str, Builder] = {
    "DeviceCastTransform": device_inverse,
    "PermuteTransform": lambda place: place.unary_inverse(lambda: _back_in_order(place)),
    "RenameTransform": rename_inverse,
    "SqueezeTransform": lambda place: place.unary_inverse(lambda: _unsqueezed(place)),
    "Stack": stack_inverse,
    "UnaryTransform": unary_inverse,
    "UnsqueezeTransform": lambda place: place.unary_inverse(lambda: _squeezed(place)),
}
