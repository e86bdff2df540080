"""Exploration is a choice: a policy that would draw its actions is asked about, never guessed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensordict.nn import InteractionType, ProbabilisticTensorDictModule
from torch import nn

from roadworthy.adapters.torchrl.parts import EXPLORING, leaves
from roadworthy.errors import Finding, UsageError, did_you_mean

WAYS = ("deterministic", "mode", "mean", "random")
_MEANING = (
    "exploration='deterministic' (TorchRL's value for evaluation), 'mode', 'mean', or 'random' "
    "(the noise becomes an input that the runtime draws)"
)


def chosen_way(exploration: Any) -> InteractionType | None:
    """TorchRL's type for the user's word; None leaves it to what the policy does by itself."""
    if exploration is None:
        return None
    name = getattr(exploration, "value", exploration)
    if not isinstance(name, str) or name.lower() not in WAYS:
        raise UsageError(
            f"exploration={exploration!r} is not known",
            code="RW141",
            hint=did_you_mean(str(name), WAYS),
        )
    return InteractionType(name.lower())


def questions(policy: nn.Module) -> Iterator[Finding]:
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
