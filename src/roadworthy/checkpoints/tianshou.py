"""Tianshou 0.5 to 2: the state_dict of a policy, and the statistics of its environment."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from roadworthy.checkpoints.actor import Actor, Network, Tensors
from roadworthy.checkpoints.layers import mlp, under, widths
from roadworthy.checkpoints.opening import Contents, refuse_bad_weights
from roadworthy.checkpoints.questions import ask_activation, ask_bounds, ask_no_normalizer
from roadworthy.checkpoints.reading import ENV, Answers, Reading
from roadworthy.checkpoints.spaces import Box, Discrete
from roadworthy.checkpoints.statistics import Statistics
from roadworthy.source import Source
from roadworthy.spec.transforms import (
    ActionStep,
    Argmax,
    Clip,
    EpsInsideRoot,
    Normalizer,
    ScaleOffset,
    ScaleToBounds,
    Tanh,
)

NAME = "Tianshou"
_BODY, _HEADS = "preprocess.model.model", ("mu.model", "last.model")
_NOISE = ("sigma_param", "sigma.")
_Q = "model.model.model"


def recognise(contents: Contents) -> str | None:
    """Why the file looks like one of Tianshou: how its networks are nested."""
    weights = _weights(contents)
    if under(weights, f"actor.{_BODY}"):
        return f"it holds actor.{_BODY}"
    return f"it holds {_Q} and its old copy" if under(weights, _Q) and (
        under(weights, "model_old")) else None  # fmt: skip


def read(contents: Contents, answers: Answers) -> Reading:
    """What the file says; how the policy maps its actions is in no file."""
    weights = _weights(contents)
    actor = under(weights, "actor")
    head = next((name for name in _HEADS if under(actor, name)), "")
    body = under(actor, _BODY) or under(weights, _Q)
    refuse_bad_weights(actor or body, contents.where)
    activation = ask_activation(answers)
    plain = mlp(body, "identity", where=contents.where)
    last = mlp(under(actor, head), "identity", where=contents.where) if head else plain
    outputs = [each.out_features for each in last.modules() if isinstance(each, nn.Linear)][-1]
    steps = _ask_steps(answers, head, outputs)
    normalizer = _normalizer(contents, answers)

    def build(wanted: Sequence[str]) -> Source:
        assert activation is not None
        assert steps is not None
        network = Policy(body, under(actor, head) if head else {}, activation, contents.where)
        return Source(
            Actor(network, wanted),
            example={"obs": torch.zeros(1, network.inputs)},
            normalizer=normalizer,
            action=steps,
        )

    used = (f"{_BODY}.", f"{head}.", *_NOISE) if head else (_BODY,)
    return Reading(
        framework=NAME,
        version="2" if any(name.startswith("policy.") for name in _flat(contents)) else "",
        architecture=f"MLP {widths(plain)}" + (f" → {widths(last)}" if head else ""),
        normalizers={} if normalizer is None else {"obs": normalizer},
        action=answers.env.action if answers.env else None,
        facts=tuple(answers.facts),
        questions=tuple(answers.questions),
        unexplained=tuple(name for name in actor if not name.startswith(used)),
        outputs=("action", "logits" if steps and isinstance(steps[0], Argmax) else "action_raw"),
        build=build,
    )


def predicting(contents: Contents, answers: Answers, source: Source) -> str:
    """Why Tianshou itself is not asked."""
    return "its files are weights alone, of which Tianshou makes no policy"


class Policy(Network):
    """An MLP that ends in an activation, and the layers of the action behind it."""

    def __init__(
        self,
        body: Mapping[str, Tensor],
        head: Mapping[str, Tensor],
        activation: str,
        where: str,
    ) -> None:
        super().__init__()
        self.body = mlp(body, activation, active_end=bool(head), where=where)
        self.head = mlp(head, activation, where=where)
        first = next(each for each in self.body if isinstance(each, nn.Linear))
        self.inputs = first.in_features

    def step(self, ports: Tensors, wanted: Collection[str]) -> Tensors:
        action = self.head(self.body(ports["obs"]))
        return dict.fromkeys(("action", *wanted), action)


def _flat(contents: Contents) -> dict[str, Tensor]:
    return contents.tensors("model") or contents.tensors()


def _weights(contents: Contents) -> dict[str, Tensor]:
    """The policy's weights; version 2 writes them below `policy`."""
    found = _flat(contents)
    return under(found, "policy") or found


def _ask_steps(answers: Answers, head: str, outputs: int) -> tuple[ActionStep, ...] | None:
    if not head or (head == "last.model" and _ask_discrete(answers, outputs)):
        return (Argmax(),)

    def limit(text: str) -> tuple[float, ...]:
        return () if text == "none" else (float(text),)

    def bound(text: str) -> str:
        if text not in ("clip", "tanh", "none"):
            raise KeyError(text)
        return text

    squash = answers.ask(
        "max_action", "the actor's max_action, with which it multiplies a tanh; none if unbounded",
        read=limit, such_as="none, or 1.0",
    )  # fmt: skip
    method = answers.ask(
        "action_bound_method",
        "what the policy does before it scales; tanh for SAC, which does it itself",
        read=bound, choices=("clip", "tanh", "none"),
    )  # fmt: skip
    scaling = answers.ask(
        "action_scaling", "whether the policy scales actions from ±1 to the bounds",
        read=lambda text: {"true": True, "false": False}[text.lower()], choices=("true", "false"),
    )  # fmt: skip
    bounds = ask_bounds(answers, outputs) if scaling else ()
    if squash is None or method is None or scaling is None or bounds is None:
        return None
    steps: list[ActionStep] = [Tanh(), ScaleOffset(scale=squash[0])] if squash else []
    bounding: dict[str, ActionStep] = {"clip": Clip(low=-1.0, high=1.0), "tanh": Tanh()}
    steps += [bounding[method]] if method in bounding else []
    return (*steps, *([ScaleToBounds(low=bounds[0], high=bounds[1])] if bounds else []))


def _ask_discrete(answers: Answers, outputs: int) -> bool:
    env = answers.env.action if answers.env else None
    told = {Discrete: "discrete", Box: "continuous"}.get(type(env))
    found = answers.ask(
        "action_space", f"whether the {outputs} numbers of the last layer are choices",
        read=lambda text: {"discrete": True, "continuous": False}[text],
        found=[(told, ENV)], choices=("discrete", "continuous"), others=("--env ID",),
    )  # fmt: skip
    return bool(found)


def _normalizer(contents: Contents, answers: Answers) -> Normalizer | None:
    """The statistics of a VectorEnvNormObs, where the file holds them."""
    tree = contents.tree
    found = tree.get("obs_rms") if isinstance(tree, Mapping) else None
    if not isinstance(found, Statistics):
        ask_no_normalizer(answers)
        return None
    values = vars(found)
    clip = values.get("clip_max")
    answers.note("normalizer", f"obs_rms: (x - mean) / sqrt(var + eps), clipped at {clip}")
    eps = float(values.get("eps", np.finfo(np.float32).eps))
    return EpsInsideRoot(mean=values["mean"], var=values["var"], eps=eps, clip=clip or None)
