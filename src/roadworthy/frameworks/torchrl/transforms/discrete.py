"""Transforms of actions that choose, or that change the shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from roadworthy.frameworks.torchrl.keys import NestedKey
from roadworthy.frameworks.torchrl.transforms.key_rule import (
    Apply,
    Computation,
    KeyRule,
    PlacedTransform,
    RuleBuilder,
)


def _from_indices(action: Tensor, table: Tensor) -> Tensor:
    rows = table.expand(action.shape[0], *table.shape)
    return rows.gather(-1, action.unsqueeze(-1)).squeeze(-1)


def _from_uneven_indices(action: Tensor, *tables: Tensor) -> Tensor:
    columns = zip(tables, action.unbind(-1), strict=True)
    return torch.stack([table[index] for table, index in columns], -1)


def _from_one_hot(action: Tensor, *tables: Tensor) -> Tensor:
    choices = torch.split(action, [len(table) for table in tables], dim=-1)
    picked = [
        table[choice.long().argmax(-1)] for table, choice in zip(tables, choices, strict=True)
    ]
    return torch.stack(picked, -1)


def _from_lone_one_hot(action: Tensor, table: Tensor) -> Tensor:
    return table[action.long().argmax(-1)]


def action_discretizer(placed: PlacedTransform) -> Iterator[KeyRule]:
    """The value of the interval that each index, or each one-hot, names."""
    transform = placed.transform

    def computation() -> Computation:
        if transform.sampling == transform.SamplingStrategy.RANDOM:
            raise placed.refused(
                "draws each action at random from its interval",
                hint="sampling=ActionDiscretizer.SamplingStrategy.MEDIAN",
            )
        placed.require_environment("takes its intervals from an environment")
        tables = transform.intervals
        alone = isinstance(tables, Tensor)
        if transform.categorical:
            if alone:
                return Apply(_from_indices, tables), {}
            return Apply(_from_uneven_indices, *tables), {}
        if alone and tables.ndim == 1:
            return Apply(_from_lone_one_hot, tables), {}
        if alone and tables.ndim > 2:
            raise placed.refused(
                f"splits an action of shape {tuple(tables.shape[:-1])}", hint="categorical=True"
            )
        return Apply(_from_one_hot, *tables), {}

    yield KeyRule(
        reads=tuple(transform.out_keys_inv),
        writes=tuple(transform.in_keys_inv),
        computation=computation,
    )


def projection(placed: PlacedTransform) -> Iterator[KeyRule]:
    """Rules that hand the chosen one-hot on, where none is projected at random."""
    transform = placed.transform
    count, most = transform.num_actions_effective, transform.max_actions

    def computation() -> Computation:
        if most != count:
            raise placed.refused(
                f"replaces the actions {count} to {most - 1} at random",
                hint=f"give the policy {count} actions, and leave the projection out",
            )
        return Apply(lambda action: functional.one_hot(action.long().argmax(-1), count)), {}

    for read, write in zip(transform.out_keys_inv, transform.in_keys_inv, strict=True):
        yield KeyRule(reads=(read,), writes=(write,), computation=computation)


def flatten_action(placed: PlacedTransform) -> Iterator[KeyRule]:
    """The action in the shape that the environment takes."""
    transform = placed.transform

    def computation(key: NestedKey) -> Computation:
        transform._ensure_unflatten_shapes()
        shape = transform._unflatten_shapes.get(key)
        if shape is None:
            raise placed.refused(
                "takes its shape from an environment, and there is none",
                code="RW151",
                hint="pass the environment, or FlattenAction(action_shape=…)",
            )
        first = transform._first_dim
        dim = placed.dim(first if first >= 0 else transform._last_dim)
        return Apply(lambda action: action.unflatten(placed.axis(action, dim), shape)), {}

    for read, write in zip(transform.out_keys_inv, transform.in_keys_inv, strict=True):
        yield KeyRule(reads=(read,), writes=(write,), computation=partial(computation, write))


ACTION: Mapping[str, RuleBuilder] = {
    "ActionDiscretizer": action_discretizer,
    "DiscreteActionProjection": projection,
    "FlattenAction": flatten_action,
}
