"""A private copy of a chain of transforms, on which everything lazy may run.

TorchRL's transforms find keys, bounds and shapes when they are first asked, and remember them:
asking the caller's own would change them.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torchrl.envs import EnvBase, TransformedEnv
from torchrl.envs.transforms import Compose, Transform

from roadworthy.errors import ExportError, UsageError


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """The caller's transforms, the one nearest to the environment first, and that environment."""

    transforms: tuple[Any, ...]
    base: EnvBase | None

    def where(self, index: int) -> str:
        return f"transforms[{index}] {type(self.transforms[index]).__name__}"


@dataclass(frozen=True, slots=True, eq=False)
class Twin:
    """Copies of the transforms, in an environment of their own where there is one.

    They know their environment by a weak reference, so `environment` keeps it alive.
    """

    transforms: tuple[Any, ...]
    environment: TransformedEnv | None


def chain_of(transforms: Any) -> Chain:
    """What `transforms` holds: an environment, a Compose, one transform, or a list of them."""
    if isinstance(transforms, EnvBase):
        return _chain_of_environment(transforms)
    if isinstance(transforms, Transform):
        container = transforms.container
        if isinstance(container, TransformedEnv) and container.transform is transforms:
            return _chain_of_environment(container)
        return Chain(tuple(_flat(transforms)), None)
    if isinstance(transforms, Sequence) and not isinstance(transforms, str):
        return Chain(tuple(each for part in transforms for each in _flat(part)), None)
    raise UsageError(
        f"expected transforms, got {type(transforms).__name__}",
        hint="a TransformedEnv, a Compose, or a list of transforms",
    )


def _chain_of_environment(environment: EnvBase) -> Chain:
    found: list[Any] = []
    while isinstance(environment, TransformedEnv):
        found = [*_flat(environment.transform), *found]
        environment = environment.base_env
    _refuse_hidden_transforms(environment)
    return Chain(tuple(found), environment)


def _flat(transform: Any) -> Iterator[Any]:
    # The subclasses of Compose do more than their parts.
    if type(transform) is Compose:
        for each in transform.transforms:
            yield from _flat(each)
    else:
        yield transform


def _refuse_hidden_transforms(base: EnvBase) -> None:
    """An environment of several workers does not show the transforms inside them."""
    described = getattr(base, "meta_data", None)
    parts = described if isinstance(described, (list, tuple)) else [described]
    if any("TransformedEnv(" in str(getattr(part, "env_str", "")) for part in parts):
        raise ExportError(
            f"the environments inside {type(base).__name__} have transforms of their own, "
            "which cannot be seen from outside",
            code="RW154",
            where=type(base).__name__,
            hint="pass the environment of one worker: the one that the workers are made from",
        )


def twin_of(chain: Chain) -> Twin:
    """Copies of the chain that share nothing with it but the environment below, which is read."""
    copies = tuple(_copied(chain, index) for index in range(len(chain.transforms)))
    if chain.base is None:
        return Twin(copies, None)
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        environment = TransformedEnv(chain.base, Compose(*copies), auto_unwrap=False)
        # Whatever is found from specs is found now. A transform without statistics has no spec;
        # that is for the transform to report, if anyone needs it.
        for read in ("output_spec", "input_spec"):
            with suppress(Exception):
                getattr(environment, read)
    return Twin(copies, environment)


def _copied(chain: Chain, index: int) -> Any:
    shallow = chain.transforms[index].clone()
    held = [*shallow.buffers(), *vars(shallow).values()]
    # torch cannot copy a buffer that has no values yet.
    empty = [each for each in held if isinstance(each, nn.UninitializedBuffer)]
    fresh: Any = nn.UninitializedBuffer
    memo = {id(each): fresh(device=each.device, dtype=each.dtype) for each in empty}
    try:
        return copy.deepcopy(shallow, memo)
    except Exception as error:
        raise ExportError(
            f"{type(shallow).__name__} cannot be copied: {error}",
            code="RW150",
            where=chain.where(index),
            hint="leave it out of the transforms, or put what it computes into the policy",
        ) from error
