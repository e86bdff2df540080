"""Stable-Baselines3 and sb3-contrib: `model.zip`, rebuilt without either of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import nn

from roadworthy.capture.source import Source
from roadworthy.errors import Finding, UsageError
from roadworthy.frameworks import spaces
from roadworthy.frameworks.files.opening import Contents, refuse_bad_weights
from roadworthy.frameworks.network.actor import Network, source_of, stacked
from roadworthy.frameworks.network.layers import left_over, widths
from roadworthy.frameworks.reading import (
    BAD_ANSWER,
    DEFAULT,
    FILE,
    UNEXPLAINED,
    Answers,
    Reading,
)
from roadworthy.frameworks.sb3.features import Observed, observed
from roadworthy.frameworks.sb3.networks import (
    ActorCritic,
    Binary,
    Deterministic,
    QValues,
    Recurrent,
    Shaped,
    Squashed,
    Told,
)
from roadworthy.frameworks.sb3.settings import DATA, NAME, WEIGHTS, Settings, settings_of
from roadworthy.frameworks.sb3.statistics import misfit, vecnormalize
from roadworthy.spec.port import About
from roadworthy.spec.signature import Action
from roadworthy.spec.transforms import (
    ActionStep,
    Argmax,
    Clip,
    EpsInsideRoot,
    MultiDiscrete,
    ScaleToBounds,
    Tanh,
)

MASK = "action_masks"
_ON_POLICY = ("PPO", "A2C", "TRPO", "MaskablePPO", "RecurrentPPO")
# Weights that an actor is not made of.
_NOT_ACTING = (
    "critic.", "critic_target.", "actor_target.", "q_net_target.", "quantile_net_target.",
    "actor.log_std", "log_std", "value_net.", "vf_features_extractor.",
)  # fmt: skip
_ACTING = (
    "features_extractor.", "pi_features_extractor.", "mlp_extractor.", "action_net.", "actor.mu",
    "actor.latent_pi.", "actor.features_extractor.", "q_net.", "quantile_net.", "lstm_actor.",
    "lstm_critic.",
)  # fmt: skip


def recognise(contents: Contents) -> str | None:
    """Why the file looks like a model that Stable-Baselines3 saved."""
    named = {DATA, WEIGHTS} <= set(contents.members)
    return f"it holds {DATA} and {WEIGHTS}" if named else None


def read(contents: Contents, answers: Answers) -> Reading:
    """The policy of the model, and what the archive does not say about it."""
    settings = settings_of(contents)
    refuse_bad_weights(settings.weights, f"{contents.where}: {WEIGHTS}")
    _refuse_other_env(settings, answers)
    default = "tanh" if settings.algorithm in _ON_POLICY else "relu"
    activation, said = settings.activation(default)
    answers.note("activation", activation, FILE if said else DEFAULT)
    statistics = vecnormalize(contents, answers, settings.observation, spaces.OBS)
    ports = observed(
        settings.observation,
        answers,
        normalize_images=bool(settings.policy.get("normalize_images", True)),
        normalized=statistics,
    )
    network = _network(settings, ports, activation)
    head = _head(settings)
    for name, value in head.facts:
        answers.note(name, value)

    def build(outputs: Sequence[str]) -> Source:
        return _source(settings, ports, network, head, statistics, answers, outputs)

    return Reading(
        framework=NAME if settings.policy_class.startswith("stable") else f"{NAME} (sb3-contrib)",
        version=settings.version,
        algorithm=settings.algorithm,
        architecture=_words(network, activation),
        observation=settings.observation,
        action=settings.action,
        normalizers=statistics,
        unexplained=left_over(settings.weights, (*_ACTING, *_NOT_ACTING)),
        outputs=("action", *head.more(network)),
        build=build,
    )


def _refuse_other_env(settings: Settings, answers: Answers) -> None:
    """An error where the environment takes other actions than the policy was trained for."""
    if answers.env is None:
        return
    pairs = [("action", settings.action, answers.env.action)]
    images = isinstance(settings.observation, spaces.Box) and len(settings.observation.shape) == 3
    if not images and answers.frame_stack is None:  # those are turned, and stacked
        pairs.append(("observation", settings.observation, answers.env.observation))
    findings = [
        Finding(
            code=BAD_ANSWER,
            where=f"env {answers.env.name}",
            what=f"its {name} space is {given}, the policy was trained on {trained}",
            hint="name the environment of the training, with its wrappers: --env file.py:make_env",
        )
        for name, trained, given in pairs
        if spaces.differs(trained, given)
    ]
    if findings:
        raise UsageError(findings=findings)


def _network(settings: Settings, ports: Mapping[str, Observed], activation: str) -> Network:
    weights, where, policy = settings.weights, settings.where, settings.policy
    match settings.algorithm:
        case "SAC" | "TQC" | "CrossQ":
            return Squashed(
                ports, weights, activation, where,
                clip_mean=float(policy.get("clip_mean", 2.0)),
                renorm_eps=float(policy.get("batch_norm_eps", 0.001)),
            )  # fmt: skip
        case "TD3" | "DDPG":
            return Deterministic(ports, weights, activation, where)
        case "DQN" | "QRDQN":
            if not isinstance(settings.action, spaces.Discrete):
                raise _wrong_action(settings)
            return QValues(ports, weights, activation, where, choices=settings.action.n)
        case "RecurrentPPO":
            return Recurrent(ports, weights, activation, where)
    return ActorCritic(ports, weights, activation, where)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionHead:
    """What `predict` makes of the network's numbers."""

    steps: tuple[ActionStep, ...] = ()
    shape: tuple[int, ...] = ()
    binary: int = 0
    squashed: bool = False
    meaning: Action | None = None
    facts: tuple[tuple[str, str], ...] = ()

    @property
    def discrete(self) -> bool:
        return self.binary > 0 or any(isinstance(s, (Argmax, MultiDiscrete)) for s in self.steps)

    def more(self, network: Network) -> tuple[str, ...]:
        """The outputs besides the action."""
        own = ("logits",) if self.discrete else ("action_raw", "mean")
        return (*own, *(("value",) if isinstance(network, (ActorCritic, QValues)) else ()))

    def around(self, network: Network) -> Network:
        """The network with the action in the environment's shape, and all that it is made of."""
        if self.binary:
            return Binary(network)
        if len(self.shape) > 1:
            network = Shaped(network, self.shape)
        if self.discrete:
            return Told(network, {"logits": nn.Identity()})
        raw = nn.Tanh() if self.squashed else nn.Identity()
        return Told(network, {"action_raw": raw, "mean": nn.Identity()})


def _head(settings: Settings) -> ActionHead:
    space, mask = settings.action, MASK if settings.algorithm == "MaskablePPO" else None
    match space:
        case spaces.Discrete():
            table = tuple(range(space.start, space.start + space.n)) if space.start else ()
            return ActionHead(steps=(Argmax(mask=mask, table=table),))
        case spaces.MultiDiscrete(nvec=sizes):
            return ActionHead(steps=(MultiDiscrete(sizes=sizes, mask=mask),))
        case spaces.MultiBinary(shape=(n,)):
            if mask is not None:
                return ActionHead(steps=(MultiDiscrete(sizes=(2,) * n, mask=mask),))
            meaning = Action(output="action", kind="multi_discrete", sizes=(2,) * n)
            return ActionHead(binary=n, meaning=meaning)
        case spaces.Box():
            return _continuous(settings, space)
    raise _wrong_action(settings)


def _continuous(settings: Settings, space: spaces.Box) -> ActionHead:
    squashed = settings.algorithm not in _ON_POLICY or bool(
        settings.use_sde and settings.policy.get("squash_output")
    )
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    if squashed:
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise _wrong_action(settings)
        return ActionHead(
            steps=(Tanh(), ScaleToBounds(low=low, high=high)), shape=space.shape, squashed=True,
            facts=(("action", "squashed by tanh, scaled to the bounds"),),
        )  # fmt: skip
    steps: tuple[ActionStep, ...] = (Clip(low=low, high=high),)
    if not (np.isfinite(low).any() or np.isfinite(high).any()):
        steps = ()
    return ActionHead(
        steps=steps, shape=space.shape,
        meaning=None if steps else Action(output="action", kind="continuous"),
        facts=(("action", "clipped to the bounds" if steps else "not bounded"),),
    )  # fmt: skip


def _wrong_action(settings: Settings) -> UsageError:
    return UsageError(
        f"{settings.algorithm} does not act in {settings.action}", where=settings.where,
        code=UNEXPLAINED, hint="copy the file again from its source",
    )  # fmt: skip


def _source(
    settings: Settings,
    ports: Mapping[str, Observed],
    network: Network,
    head: ActionHead,
    statistics: Mapping[str, EpsInsideRoot],
    answers: Answers,
    outputs: Sequence[str],
) -> Source:
    source = replace(
        source_of(head.around(network), outputs, head.steps),
        meaning=head.meaning,
        about={port: about for port, each in ports.items() if (about := each.about()) != About()},
    )
    if answers.frame_stack is not None:
        source = _stacked(source, ports, answers.frame_stack)
    _refuse_misfit(source, statistics, settings.where, answers.frame_stack)
    return replace(source, normalizer=dict(statistics) or None)


def _stacked(source: Source, ports: Mapping[str, Observed], count: int) -> Source:
    if list(ports) != [spaces.OBS]:
        raise UsageError(
            f"the policy sees {', '.join(ports)}: which of them is a stack is not known",
            where="frame_stack", hint="leave it out, and give the policy its stacks",
        )  # fmt: skip
    # VecFrameStack puts the channels of images side by side, and the elements of vectors.
    image = (
        isinstance(ports[spaces.OBS].space, spaces.Box) and len(ports[spaces.OBS].space.shape) == 3
    )
    first = image and ports[spaces.OBS].layout == "channels_first"
    return stacked(source, count, axis=0 if first else -1)


def _refuse_misfit(
    source: Source, statistics: Mapping[str, EpsInsideRoot], where: str, frames: int | None
) -> None:
    for port, each in statistics.items():
        row = tuple(source.example[port].shape[1:])
        misfit(np.shape(each.mean), row, f"{where}: {port}", frames)


def _words(network: Network, activation: str) -> str:
    """The architecture as a person says it."""
    parts = []
    if any(isinstance(each, nn.Conv2d) for each in network.modules()):
        parts.append("NatureCNN")
    if isinstance(network, Recurrent):
        parts.append(f"LSTM {network.lstm.input_size} → {network.lstm.hidden_size}")
    match network:
        case ActorCritic():
            acting: nn.Module = nn.Sequential(network.policy_net, network.head)
        case Squashed():
            acting = nn.Sequential(network.latent, network.mean)
        case Deterministic():
            acting = network.mean
        case QValues():
            acting = network.net
        case _:
            raise TypeError(type(network))
    return ", ".join([*parts, f"MLP {widths(acting)}", activation])
