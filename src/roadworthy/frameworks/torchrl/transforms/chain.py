"""The chain of transforms around an environment, and private copies on which all that is lazy runs.

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

from roadworthy.errors import ExportError, Finding, UsageError
from roadworthy.frameworks.torchrl.keys import NestedKey
from roadworthy.frameworks.torchrl.transforms.catalogue import Entry, entry_of


@dataclass(frozen=True, slots=True, eq=False)
class TransformChain:
    """The caller's transforms, the one nearest to the environment first, and that environment."""

    transforms: tuple[Any, ...]
    base: EnvBase | None

    def name(self, index: int) -> str:
        return type(self.transforms[index]).__name__

    def where(self, index: int) -> str:
        return f"transforms[{index}] {self.name(index)}"

    def finding(self, index: int, what: str, *, hint: str, code: str) -> Finding:
        """A finding at the place of a transform."""
        return Finding(code=code, what=what, where=self.where(index), hint=hint)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A transform that is no part of the policy, and what the loop around it must do."""

    name: str
    advice: str


@dataclass(frozen=True, slots=True, eq=False)
class TransformCopies:
    """Copies of the transforms, in an environment of their own where there is one.

    They know their environment by a weak reference, so `env` keeps it alive.
    """

    transforms: tuple[Any, ...]
    env: TransformedEnv | None


def chain_of(transforms: Any) -> TransformChain:
    """What `transforms` holds: an environment, a Compose, one transform, or a list of them."""
    if isinstance(transforms, EnvBase):
        return _chain_of_env(transforms)
    if isinstance(transforms, Transform):
        container = transforms.container
        if isinstance(container, TransformedEnv) and container.transform is transforms:
            return _chain_of_env(container)
        return TransformChain(tuple(_flat(transforms)), None)
    if isinstance(transforms, Sequence) and not isinstance(transforms, str):
        return TransformChain(tuple(each for part in transforms for each in _flat(part)), None)
    raise UsageError(
        f"expected transforms, got {type(transforms).__name__}",
        hint="a TransformedEnv, a Compose, or a list of transforms",
    )


def _chain_of_env(environment: EnvBase) -> TransformChain:
    found: list[Any] = []
    while isinstance(environment, TransformedEnv):
        found = [*_flat(environment.transform), *found]
        environment = environment.base_env
    _refuse_hidden_transforms(environment)
    return TransformChain(tuple(found), environment)


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


def copy_transforms(chain: TransformChain) -> TransformCopies:
    """Copies of the chain that share nothing with it but the environment below, which is read."""
    copies = tuple(_copied(chain, index) for index in range(len(chain.transforms)))
    if chain.base is None:
        return TransformCopies(copies, None)
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        environment = TransformedEnv(chain.base, Compose(*copies), auto_unwrap=False)
        # Whatever is found from specs is found now. A transform without statistics has no spec;
        # that is for the transform to report, if anyone needs it.
        for read in ("output_spec", "input_spec"):
            with suppress(Exception):
                getattr(environment, read)
    return TransformCopies(copies, environment)


def _copied(chain: TransformChain, index: int) -> Any:
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


def entries_of(chain: TransformChain) -> list[Entry]:
    """What becomes of each transform; raises for all that are refused by their class, at once."""
    findings, entries = [], []
    for index, transform in enumerate(chain.transforms):
        entry = entry_of(transform)
        if entry is None or entry.group == "refused":
            findings.append(_refusal(chain, index, entry))
        else:
            entries.append(entry)
    if findings:
        raise ExportError(findings=findings)
    return entries


def _refusal(chain: TransformChain, index: int, entry: Entry | None) -> Finding:
    name = chain.name(index)
    if entry is None:
        what = f"{name} is not one of TorchRL's transforms; does the policy need what it computes?"
        hint = (
            "if so, move it into the policy as a TensorDictModule; if not, pass a list without it"
        )
    else:
        what, hint = f"{name} cannot be exported", entry.note
    return chain.finding(index, what, hint=hint, code="RW150")


def left_out(
    chain: TransformChain, entries: Sequence[Entry], used: set[int], primed: set[NestedKey]
) -> Iterator[LeftOut]:
    """The transforms that became no stage (`used` did), and what the loop must do instead."""
    for index, entry in enumerate(entries):
        transform, name = chain.transforms[index], chain.name(index)
        if entry.group == "left out":
            yield LeftOut(name, entry.advice(transform))
        elif index not in used and not _primes(transform, primed):
            yield LeftOut(name, "the policy reads nothing that it writes")
        if name == "StepCounter" and transform.max_steps is not None:
            yield LeftOut(name, f"apply in your loop: max_steps={transform.max_steps}")


def _primes(transform: Any, primed: set[NestedKey]) -> bool:
    primers = getattr(transform, "primers", None)
    return primers is not None and any(key in primed for key in primers.keys(True, True))
