"""skrl 1 and 2: `agent_*.pt`, whose policy is any network, and its preprocessor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from roadworthy.checkpoints.chain import Chain, chain_of, refuse_no_chain
from roadworthy.checkpoints.chain_network import ChainNetwork
from roadworthy.checkpoints.opening import Contents, refuse_bad_weights
from roadworthy.checkpoints.questions import Found, ask_activation, ask_head
from roadworthy.checkpoints.reading import DEFAULT, Answers, Reading
from roadworthy.source import Source
from roadworthy.spec.transforms import EpsOutsideRoot, Normalizer

NAME = "skrl"
SETTINGS = "params/agent.yaml"
# What agents write beside their policy, in any of their algorithms.
_BESIDE = {
    "value", "optimizer", "policy_optimizer", "critic_1", "critic", "target_policy",
    "value_preprocessor", "state_preprocessor", "observation_preprocessor", "target_q_network",
    "discriminator",
}  # fmt: skip
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
    settings = _model(contents.neighbours.settings(SETTINGS), acting)
    activation = ask_activation(answers, _activations(settings), (f"network in {SETTINGS}",))
    head = ask_head(answers, chain.layers[-1].outputs, _heads(settings, acting))
    normalizer = _normalizer(contents, chain, answers)
    for name in chain.noise:
        answers.note(name, "the noise of training, not used")

    def build(outputs: Sequence[str]) -> Source:
        assert activation is not None
        assert head is not None
        network = ChainNetwork(chain, activation, None, contents.where)
        source = head.source(network, network.example(), network.memory(), outputs)
        return replace(source, normalizer=normalizer)

    return Reading(
        framework=NAME,
        version=_version(contents),
        architecture=chain.text + (f", {activation}" if activation else ""),
        normalizers={} if normalizer is None else {"obs": normalizer},
        action=answers.env.action if answers.env else None,
        facts=tuple(answers.facts),
        questions=tuple(answers.questions),
        unexplained=_unexplained(chain),
        outputs=head.outputs if head else ("action",),
        build=build,
    )


def _acting(contents: Contents) -> str:
    """The key of the network that acts; empty where there is none."""
    return next((name for name in ("policy", "q_network") if contents.tensors(name)), "")


def _unexplained(chain: Chain) -> tuple[str, ...]:
    convolutions = tuple(each.path for each in chain.of("conv"))
    return (*chain.unexplained, *convolutions)


def _version(contents: Contents) -> str:
    if "observation_preprocessor" in contents.tree:
        return "2"
    return "1" if "state_preprocessor" in contents.tree else ""


def _normalizer(contents: Contents, chain: Chain, answers: Answers) -> Normalizer | None:
    """The RunningStandardScaler of observations; in version 1 they were called states."""
    for name in ("observation_preprocessor", "state_preprocessor"):
        own = contents.tensors(name)
        mean, variance = own.get("running_mean"), own.get("running_variance")
        if mean is None or variance is None or mean.numel() != chain.layers[0].inputs:
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


def _activations(settings: Mapping[str, Any]) -> Found:
    network = settings.get("network")
    parts = network if isinstance(network, (list, tuple)) else ()
    said = {str(part.get("activations")) for part in parts if isinstance(part, Mapping)}
    return [(said.pop() if len(said) == 1 else None, f"{SETTINGS} (models.policy.network)")]


def _heads(settings: Mapping[str, Any], acting: str) -> Found:
    if acting == "q_network":
        return [("argmax", "a network of Q values")]
    kind = str(settings.get("class", "")).lower()
    where = f"{SETTINGS} (models.policy)"
    if "multicategorical" in kind:
        return [("multi_discrete", where)]
    if "categorical" in kind:
        return [("argmax", where)]
    told = _OUTPUTS.get(str(settings.get("output")).strip())
    clips = "clip_actions" if "deterministic" in kind else "clip_mean_actions"
    if told == "plain" and settings.get(clips):
        told = "clip_to_bounds"
    return [(told, where)]
