"""Tianshou 0.5 to 2: the state_dict of a policy, and the statistics of its environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor

from roadworthy.capture.source import Source
from roadworthy.frameworks import spaces
from roadworthy.frameworks.files.opening import Contents, Statistics, refuse_bad_weights
from roadworthy.frameworks.network.actor import source_of
from roadworthy.frameworks.network.layers import under
from roadworthy.frameworks.questions import (
    ask_activation,
    ask_bounds,
    ask_choice,
    ask_flag,
    ask_no_normalizer,
)
from roadworthy.frameworks.reading import DEFAULT, ENV, Answers, Reading
from roadworthy.frameworks.tianshou.network import Policy, parts_of
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

_BODY, _HEADS = "preprocess.model.model", ("mu.model", "last.model", "mu")
_NOISE = ("sigma_param", "sigma.")
_Q = "model.model.model"
_RECURRENT = "nn.weight_ih_l0"
# Of what stands beside an actor or a network of Q values: critics, copies for training.
_BESIDE = ("critic", "_actor_critic.", "model_old", "actor_old.", "log_alpha", "_optim")


def recognise(contents: Contents) -> str | None:
    """Why the file looks like one of Tianshou: how its networks are nested."""
    weights = _weights(contents)
    for name in (f"actor.{_BODY}", f"actor.preprocess.{_RECURRENT[:2]}"):
        if under(weights, name):
            return f"it holds {name}"
    if f"actor.{_RECURRENT}" in weights and "actor.mu.weight" in weights:
        return "it holds actor.nn and actor.mu"
    asked = under(weights, _Q) or f"model.{_RECURRENT}" in weights
    old = any(name.startswith(("model_old", "policy.model")) for name in _flat(contents))
    return "it holds a network of Q values and its old copy" if asked and old else None


def read(contents: Contents, answers: Answers) -> Reading:
    """What the file says; how the policy maps its actions is in no file."""
    weights = _weights(contents)
    actor = under(weights, "actor")
    head = next((name for name in _HEADS if under(actor, name)), "")
    network = under(actor, "preprocess") or actor or under(weights, "model")
    parts = parts_of(network, under(actor, head) if head else {})
    refuse_bad_weights(actor or network, contents.where)
    activation = ask_activation(answers) if parts.body or len(parts.head) > 2 else "identity"
    dueling = _ask_dueling(answers) if parts.deep_duel else "identity"
    steps = _ask_steps(answers, head, parts.outputs)
    normalizer = _normalizer(contents, answers)

    def build(wanted: Sequence[str]) -> Source:
        assert activation is not None
        assert dueling is not None
        assert steps is not None
        made = Policy(parts, activation, dueling, contents.where)
        return source_of(made, wanted, steps, normalizer)

    choosing = bool(steps and isinstance(steps[0], Argmax))
    return Reading(
        version="2" if any(name.startswith("policy.") for name in _flat(contents)) else "",
        architecture=parts.text,
        normalizers={} if normalizer is None else {"obs": normalizer},
        action=answers.env_action,
        unexplained=_unexplained(weights, head),
        outputs=("action", "logits" if choosing else "action_raw"),
        absent={"value": "of Tianshou's files the actor alone is rebuilt"},
        build=build,
    )


def _unexplained(weights: Mapping[str, Tensor], head: str) -> tuple[str, ...]:
    layers = ("model.model.", "nn.", "fc1.", "fc2.", "Q.model.", "V.model.")
    actor = (*(f"actor.preprocess.{name}" for name in layers), "actor.nn.", f"actor.{head}.",
             *(f"actor.{name}" for name in _NOISE))  # fmt: skip
    own = actor if under(weights, "actor") else tuple(f"model.{name}" for name in layers)
    return tuple(name for name in weights if not name.startswith((*own, *_BESIDE)))


def _ask_dueling(answers: Answers) -> str | None:
    return ask_activation(
        answers, [("relu", DEFAULT)], name="dueling_activation",
        what="the function between the layers of the two heads",
    )  # fmt: skip


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

    squash = answers.ask(
        "max_action", "the actor's max_action, with which it multiplies a tanh; none if unbounded",
        read=limit, such_as="none, or 1.0",
    )  # fmt: skip
    bounding: Mapping[str, tuple[ActionStep, ...]] = {
        "clip": (Clip(low=-1.0, high=1.0),), "tanh": (Tanh(),), "none": (),
    }  # fmt: skip
    method = ask_choice(
        answers, "action_bound_method",
        "what the policy does before it scales; tanh for SAC, which does it itself", bounding,
    )  # fmt: skip
    scaling = ask_flag(
        answers, "action_scaling", "whether the policy scales actions from ±1 to the bounds"
    )
    bounds = ask_bounds(answers, outputs) if scaling else ()
    if squash is None or method is None or scaling is None or bounds is None:
        return None
    first = (Tanh(), ScaleOffset(scale=squash[0])) if squash else ()
    last = (ScaleToBounds(low=bounds[0], high=bounds[1]),) if bounds else ()
    return (*first, *method, *last)


def _ask_discrete(answers: Answers, outputs: int) -> bool:
    env = answers.env_action
    told = {spaces.Discrete: "discrete", spaces.Box: "continuous"}.get(type(env))
    found = ask_choice(
        answers, "action_space", f"whether the {outputs} numbers of the last layer are choices",
        {"discrete": True, "continuous": False}, [(told, ENV)], ("--env ID",),
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
