"""A TorchRL policy as stages, in order; how it is to act is a choice, asked for, never guessed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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

from roadworthy.errors import Finding, UsageError, did_you_mean
from roadworthy.frameworks import EXPLORATIONS
from roadworthy.frameworks.torchrl.distributions import DistributionHead
from roadworthy.frameworks.torchrl.rewritten import (
    DistributionalQValue,
    EGreedy,
    OrnsteinUhlenbeck,
    Recurrent,
)
from roadworthy.frameworks.torchrl.stage import Stage

_MEANING = (
    "exploration='deterministic' (TorchRL's value for evaluation), 'mode', 'mean', or 'random' "
    "(the noise becomes an input that the runtime draws)"
)
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


def policy_stages(policy: nn.Module, interaction_type: InteractionType | None) -> list[Stage]:
    """The policy as stages that torch.export can follow, in order."""
    return [_stage(module, interaction_type) for module in leaves(policy)]


def _stage(module: nn.Module, interaction_type: InteractionType | None) -> Stage:
    random = interaction_type is InteractionType.RANDOM
    if isinstance(module, ProbabilisticTensorDictModule):
        return DistributionHead(module, interaction_type or module.default_interaction_type)
    if isinstance(module, (LSTMModule, GRUModule)):
        return Recurrent(module)
    if isinstance(module, DistributionalQValueModule):
        return DistributionalQValue(module)
    if isinstance(module, EGreedyModule) and random:
        return EGreedy(module)
    if isinstance(module, OrnsteinUhlenbeckProcessModule) and random:
        return OrnsteinUhlenbeck(module)
    if isinstance(module, EXPLORING):
        # Without exploration it lets the action pass, and projects it where it is `safe`.
        return Stage(module, in_keys=module.in_keys[:1], out_keys=module.out_keys[:1])
    return Stage(module)


def interaction_type_of(exploration: Any) -> InteractionType | None:
    """TorchRL's type for the user's word; None, where none is given, leaves it to the policy."""
    if exploration is None:
        return None
    name = getattr(exploration, "value", exploration)
    if not isinstance(name, str) or name.lower() not in EXPLORATIONS:
        raise UsageError(
            f"exploration={exploration!r} is not known",
            code="RW141",
            hint=did_you_mean(str(name), EXPLORATIONS),
        )
    return InteractionType(name.lower())


def exploration_questions(policy: nn.Module) -> Iterator[Finding]:
    """A finding for every module that would draw at random if nobody said otherwise."""
    for module in exploring(policy):
        yield Finding(
            code="RW141",
            where=_described(module),
            what="the policy explores: it would act at random, and the export must know",
            hint=f"say which actions you want: {_MEANING}",
        )


def exploring(policy: nn.Module) -> list[nn.Module]:
    """The modules of the policy that draw unless they are told otherwise, in order."""
    unsampled = _only_scoring(policy)
    return [
        module
        for module in policy.modules()
        if isinstance(module, EXPLORING)
        or (
            isinstance(module, ProbabilisticTensorDictModule)
            and module.default_interaction_type is InteractionType.RANDOM
            and id(module) not in unsampled
        )
    ]


def _only_scoring(policy: nn.Module) -> set[int]:
    """Distributions that a sequence leaves unsampled, since its networks give the action."""
    run = {id(module) for module in leaves(policy)}
    inside = {id(each) for leaf in leaves(policy) for each in leaf.modules()}
    return {id(module) for module in policy.modules()} - run - inside


def _described(module: nn.Module) -> str:
    distribution = getattr(module, "distribution_class", None)
    name = getattr(distribution, "__name__", "")
    return f"{type(module).__name__}({name})" if name else type(module).__name__
