"""The critic of rsl_rl, where its value is wanted: it may see more than the policy does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from roadworthy.frameworks.files.neighbours import AGENT
from roadworthy.frameworks.network.actor import Tensors
from roadworthy.frameworks.network.images import SHAPES, Standardised
from roadworthy.frameworks.network.layers import activation_name, recurrent, sequence
from roadworthy.frameworks.network.memory import CRITIC, start, stepped
from roadworthy.frameworks.questions import ask_choice
from roadworthy.frameworks.reading import Answers
from roadworthy.frameworks.rsl_rl.layout import Layout, Part
from roadworthy.spec.transforms import EpsOutsideRoot

CRITIC_OBS = "critic_obs"
EPS = 1e-2


@dataclass(frozen=True, slots=True)
class Seen:
    """What the critic is given: the policy's observation, or one of its own; and its activation."""

    own: bool
    activation: str


def why_absent(layout: Layout) -> str:
    """Why the file has no value; empty where it has one."""
    if layout.role == "student":
        return "distillation trains no critic"
    if layout.critic is None:
        return "the file holds no critic"
    return "the critic sees images" if layout.critic.cnns else ""


def ask_critic(
    answers: Answers, layout: Layout, settings: Mapping[str, Any], activation: str | None
) -> Seen | None:
    """What the critic sees; None while that is open."""
    critic = layout.critic
    assert critic is not None
    told = settings.get("critic")
    said = told.get("activation") if isinstance(told, Mapping) else None
    between = activation_name(str(said)) if said else activation
    apart = bool(layout.actor.cnns) or critic.inputs != layout.actor.inputs
    if apart:
        answers.note(CRITIC_OBS, f"an input of its own, {critic.inputs} numbers", SHAPES)
        own: bool | None = True
    else:
        own = ask_choice(
            answers,
            CRITIC_OBS,
            "whether the critic sees what the policy sees, or has an input of its own",
            {"same": False, "own": True},
            [(_same_groups(settings, layout.role), f"{AGENT} (obs_groups)")],
        )
    return None if own is None or between is None else Seen(own, between)


def _same_groups(settings: Mapping[str, Any], role: str) -> str | None:
    groups = settings.get("obs_groups")
    if not isinstance(groups, Mapping) or "critic" not in groups:
        return None
    actor = next((groups[name] for name in (role, "policy") if name in groups), None)
    return None if actor is None else "same" if list(actor) == list(groups["critic"]) else "own"


class Critic(nn.Module):
    """The value of an observation, which its own statistics normalise."""

    def __init__(self, part: Part, seen: Seen, where: str) -> None:
        super().__init__()
        self.seen, self.inputs = seen, part.inputs
        self.normalized: nn.Module = nn.Identity()
        if part.statistics:
            mean, std = (part.statistics[name].reshape(-1) for name in ("_mean", "_std"))
            self.normalized = Standardised(EpsOutsideRoot(mean=mean, std=std, eps=EPS))
        self.cell = recurrent(part.cell, where) if part.cell else None
        self.mlp = sequence(part.mlp, seen.activation, where=f"{where}: critic")

    def example(self) -> Tensors:
        return {CRITIC_OBS: torch.zeros(1, self.inputs)} if self.seen.own else {}

    def memory(self) -> Tensors:
        return start(self.cell, prefix=CRITIC)

    def forward(self, parts: Sequence[Tensor], ports: Tensors) -> tuple[Tensor, Tensors]:
        obs = ports[CRITIC_OBS] if self.seen.own else torch.cat(list(parts), dim=-1)
        latent, after = stepped(self.cell, self.normalized(obs), ports, prefix=CRITIC)
        return self.mlp(latent), after
