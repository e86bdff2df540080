"""skrl 1 and 2: `agent_*.pt`, whose policy is any network, and its preprocessor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from roadworthy.capture.source import Source
from roadworthy.frameworks.files.neighbours import AGENT
from roadworthy.frameworks.files.opening import Contents, refuse_bad_weights
from roadworthy.frameworks.network.chain import Chain, chain_of, critic_of, refuse_no_chain
from roadworthy.frameworks.network.chain_network import ChainNetwork
from roadworthy.frameworks.network.images import Images, ask_images, of_each
from roadworthy.frameworks.network.layers import unexplained
from roadworthy.frameworks.network.statistics import VALUE, returns_of, with_value
from roadworthy.frameworks.questions import Found, ask_activation, ask_head
from roadworthy.frameworks.reading import DEFAULT, Answers, Reading
from roadworthy.frameworks.skrl.expressions import Input, head_of, input_of
from roadworthy.spec.transforms import EpsOutsideRoot, Normalizer

# What agents write beside their policy, in any of their algorithms.
_BESIDE = {
    "value", "optimizer", "policy_optimizer", "critic_1", "critic", "target_policy",
    "value_preprocessor", "state_preprocessor", "observation_preprocessor", "target_q_network",
    "discriminator",
}  # fmt: skip
_WHERE = f"{AGENT} (models.policy.network)"
# The order in which a list names them; dictionaries may spell them in two ways.
_ORDER = ("out_channels", "kernel_size", "stride", "padding")
_SPELT = {"strides": "stride", "features": "out_channels"}
_OUTPUTS = {"ACTIONS": "plain", "tanh(ACTIONS)": "tanh"}


def recognise(contents: Contents) -> str | None:
    """Why the file looks like an agent of skrl: a policy, and what agents write beside it."""
    tree = contents.tree
    if not isinstance(tree, Mapping) or not _BESIDE & set(tree):
        return None
    name = _acting(contents)
    return f"it holds {name} beside {', '.join(sorted(_BESIDE & set(tree)))}" if name else None


def read(contents: Contents, answers: Answers) -> Reading:
    """What the file says, and what agent.yaml says beside it."""
    acting = _acting(contents)
    weights = contents.tensors(acting)
    refuse_bad_weights(weights, contents.where)
    chain = chain_of(weights)
    refuse_no_chain(chain, contents.where)
    told = contents.neighbours.settings(AGENT)
    settings = _model(told, acting)
    activation = ask_activation(answers, _activations(settings), (f"network in {AGENT}",))
    images = _ask_images(answers, chain, settings) if chain.kernels else None
    head = ask_head(answers, chain.layers[-1].outputs, _heads(settings, acting), expression=head_of)
    # Of an image that is not known yet, whatever statistics there are.
    width = math.prod(images.shape) if images else None if chain.kernels else chain.layers[0].inputs
    normalizer = _normalizer(contents, width, answers)
    critic = _critic(contents, chain, told)
    value_activation = _ask_value(answers, activation, told) if VALUE in answers.outputs else None
    answers.note_noise(chain.noise)

    def build(outputs: Sequence[str]) -> Source:
        assert activation is not None
        assert head is not None
        network = ChainNetwork(
            chain, activation, images, contents.where, statistics=normalizer, statistics_first=True
        )
        returns = returns_of(contents.tensors("value_preprocessor"), eps=0)
        network.add_critic(critic, value_activation or activation, outputs, returns)
        return head.source(network, outputs, None if images else normalizer)

    outputs, absent = with_value(head.outputs if head else ("action",), critic)
    return Reading(
        version=_version(contents),
        architecture=chain.text + (f", {activation}" if activation else ""),
        normalizers={} if normalizer is None else {"obs": normalizer},
        action=answers.env_action,
        unexplained=chain.unexplained,
        outputs=outputs,
        absent=absent,
        build=build,
    )


def _critic(contents: Contents, chain: Chain, told: Mapping[str, Any]) -> Chain | str:
    """The network of the value, or why there is none that takes what the policy takes."""
    own = contents.tensors("value")
    if not own:
        return "the agent holds no network called value"
    for part in _network(_model(told, "value")):
        if _version(contents) == "2" and "STATES" in str(part.get("input")):
            return f"{AGENT} says that the critic sees the privileged state"
    return critic_of(own, chain)


def _ask_value(answers: Answers, activation: str | None, told: Mapping[str, Any]) -> str | None:
    found = [*_activations(_model(told, "value"), "value"), (activation, "that of the policy")]
    return ask_activation(
        answers, found, name="value_activation", what="the function between the critic's layers"
    )


def _acting(contents: Contents) -> str:
    """The key of the network that acts; empty where there is none."""
    return next((name for name in ("policy", "q_network") if contents.tensors(name)), "")


def _version(contents: Contents) -> str:
    if "observation_preprocessor" in contents.tree:
        return "2"
    return "1" if "state_preprocessor" in contents.tree else ""


def _normalizer(contents: Contents, width: int | None, answers: Answers) -> Normalizer | None:
    """The RunningStandardScaler of observations; in version 1 they were called states."""
    for name in ("observation_preprocessor", "state_preprocessor"):
        own = contents.tensors(name)
        mean, variance = own.get("running_mean"), own.get("running_variance")
        if mean is None or variance is None or width not in (None, mean.numel()):
            continue
        answers.note("normalizer", f"{name}: (x - mean) / (sqrt(variance) + 1e-8), clipped at 5")
        answers.note("epsilon and clip of the normalizer", "1e-8 and 5", DEFAULT)
        std: Tensor = variance.float().sqrt()
        return EpsOutsideRoot(mean=mean.float(), std=std, eps=1e-8, clip=5.0)
    answers.note("normalizer", "none: agents save the preprocessor that they use")
    return None


def _model(settings: Mapping[str, Any], acting: str) -> Mapping[str, Any]:
    models = settings.get("models")
    own = models.get(acting) if isinstance(models, Mapping) else None
    return own if isinstance(own, Mapping) else {}


def _network(settings: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    network = settings.get("network")
    parts = network if isinstance(network, (list, tuple)) else ()
    return [part for part in parts if isinstance(part, Mapping)]


def _activations(settings: Mapping[str, Any], model: str = "policy") -> Found:
    """What the settings say, unless they say several."""
    where = f"{AGENT} (models.{model}.network)"
    said: list[object] = []
    for part in _network(settings):
        own = part.get("activations")
        said += own if isinstance(own, (list, tuple)) else [own]
    named = {str(each) for each in said if each}
    if len(named) > 1:
        raise unexplained(where, f"one activation is rebuilt, got {', '.join(sorted(named))}")
    return [(named.pop() if named else None, where)]


def _heads(settings: Mapping[str, Any], acting: str) -> Found:
    if acting == "q_network":
        return [("argmax", "a network of Q values")]
    kind = str(settings.get("class", "")).lower()
    where = f"{AGENT} (models.policy)"
    if "multicategorical" in kind:
        return [("multi_discrete", where)]
    if "categorical" in kind:
        return [("argmax", where)]
    told = settings.get("output")
    if told is not None:
        told = _OUTPUTS.get(str(told).strip(), str(told).strip())
    clips = "clip_actions" if "deterministic" in kind else "clip_mean_actions"
    if told == "plain" and settings.get(clips):
        told = "clip_to_bounds"
    return [(told, where)]


def _ask_images(answers: Answers, chain: Chain, settings: Mapping[str, Any]) -> Images | None:
    """What the weights of convolutions do not say; None while some of it is open."""
    parts = _network(settings)
    convs = [conv for part in parts for conv in _convolutions(part)]
    seen = _input(parts)
    return ask_images(
        answers,
        chain.kernels,
        divisor=[(seen.divisor if seen else None, _WHERE)],
        shift=seen.shift if seen else 0.0,
        strides=[(of_each(convs, "stride", 1), _WHERE)],
        padding=[(of_each(convs, "padding", 0), _WHERE)],
        channels=[(seen.channels if seen else None, _WHERE)],
    )


def _convolutions(part: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for layer in part.get("layers") or ():
        own = layer.get("conv2d") if isinstance(layer, Mapping) else None
        if isinstance(own, Mapping):
            found.append({_SPELT.get(str(name), str(name)): value for name, value in own.items()})
        elif isinstance(own, (list, tuple)):
            found.append(dict(zip(_ORDER, own, strict=False)))
    return found


def _input(parts: Sequence[Mapping[str, Any]]) -> Input | None:
    """What the first network does to its observations; None where that cannot be read."""
    try:
        return input_of(str(parts[0].get("input"))) if parts else None
    except ValueError:
        return None
