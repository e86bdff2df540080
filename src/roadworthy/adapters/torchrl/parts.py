"""A TorchRL policy taken apart: modules in order, the awkward ones replaced by plain tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import (
    InteractionType,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModuleWrapper,
    TensorDictSequential,
)
from torch import nn
from torchrl.modules import (
    AdditiveGaussianModule,
    DistributionalQValueModule,
    EGreedyModule,
    GRUModule,
    LSTMModule,
    OrnsteinUhlenbeckProcessModule,
)

from roadworthy.adapters.torchrl.greedy import Greedy
from roadworthy.adapters.torchrl.heads import DistributionalHead, Head
from roadworthy.adapters.torchrl.keys import provides
from roadworthy.adapters.torchrl.part import Part, Plain, StagePart
from roadworthy.adapters.torchrl.recurrent import Noisy, Recurrent
from roadworthy.adapters.torchrl.stage import Stage

EXPLORING = (EGreedyModule, AdditiveGaussianModule, OrnsteinUhlenbeckProcessModule)
_SEQUENCES = (TensorDictSequential.forward, ProbabilisticTensorDictSequential.forward)


def leaves(policy: nn.Module) -> Iterator[nn.Module]:
    """The modules that a policy runs, in order; a sequence of its own kind is one of them."""
    forward = type(policy).forward
    if policy._forward_hooks or getattr(policy, "partial_tolerant", False):
        yield policy
    elif isinstance(policy, TensorDictSequential) and forward in _SEQUENCES:
        inner = list(policy._module_iter())
        if isinstance(policy, ProbabilisticTensorDictSequential) and not policy._requires_sample:
            # The networks already give the action; the distribution only scores it.
            inner = inner[:-1]
        for module in inner:
            yield from leaves(module)
    elif isinstance(policy, TensorDictModuleWrapper) and forward is TensorDictModuleWrapper.forward:
        yield from leaves(policy.td_module)
    else:
        yield policy


def taken_apart(policy: nn.Module, exploration: InteractionType | None) -> list[Part]:
    """The policy as parts that torch.export can follow, in order."""
    random = exploration is InteractionType.RANDOM
    return [_part(module, exploration, random) for module in leaves(policy)]


def staged(stages: Sequence[Stage]) -> list[Part]:
    return [StagePart(stage) for stage in stages]


def _part(module: nn.Module, exploration: InteractionType | None, random: bool) -> Part:
    if isinstance(module, ProbabilisticTensorDictModule):
        return Head(module, exploration or module.default_interaction_type)
    if isinstance(module, (LSTMModule, GRUModule)):
        return Recurrent(module)
    if isinstance(module, DistributionalQValueModule):
        return DistributionalHead(module)
    if isinstance(module, EGreedyModule) and random:
        return Greedy(module)
    if isinstance(module, OrnsteinUhlenbeckProcessModule) and random:
        return Noisy(module)
    if isinstance(module, EXPLORING):
        # Without exploration it lets the action pass, and projects it where it is `safe`.
        return Plain(module, in_keys=module.in_keys[:1], out_keys=module.out_keys[:1])
    return Plain(module)


def needed(parts: Sequence[Part], keys: Sequence[Any]) -> list[Part]:
    """The parts that `keys` depend on; a value head beside the policy is left out."""
    wanted, kept = list(keys), []
    for part in reversed(parts):
        if not part.out_keys or any(provides(o, w) for o in part.out_keys for w in wanted):
            wanted += part.in_keys
            kept.append(part)
    return kept[::-1]


def run(parts: Iterable[nn.Module], values: TensorDictBase) -> TensorDictBase:
    """What is in the TensorDict after every part, without TorchRL's checks of distributions."""
    validated = torch.distributions.Distribution._validate_args
    # They read tensors as Python booleans, which a graph cannot hold.
    torch.distributions.Distribution.set_default_validate_args(False)
    try:
        for part in parts:
            values = part(values)
        return values
    finally:
        torch.distributions.Distribution.set_default_validate_args(validated)
