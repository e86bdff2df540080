"""skrl itself, for files that the user trusts: a model of its instantiator with these weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from roadworthy.capture.source import Source
from roadworthy.errors import need
from roadworthy.frameworks.files.opening import Contents
from roadworthy.frameworks.network.actor import Actor, Tensors
from roadworthy.frameworks.network.chain import Chain
from roadworthy.frameworks.network.chain_network import ChainNetwork
from roadworthy.frameworks.questions import Ended
from roadworthy.frameworks.reading import Answers
from roadworthy.frameworks.skrl.live import Step
from roadworthy.frameworks.spaces import OBS, action_box, observation_box
from roadworthy.spec.signature import Action

# What the instantiator knows; its softmax has no dimension.
_ACTIVATIONS = {"elu", "leaky_relu", "relu", "selu", "sigmoid", "softplus", "softsign", "tanh"}
_CONTAINER = "_container"
_OUTPUTS = {"plain": "ACTIONS", "tanh": "tanh(ACTIONS)", "clip_to_bounds": "ACTIONS"}
# What clips, for models of continuous actions.
_CONTINUOUS = {"gaussian": "clip_mean_actions", "deterministic": "clip_actions"}
_SCALERS = ("observation_preprocessor", "state_preprocessor")


def predicting(contents: Contents, answers: Answers, source: Source) -> Source | str:
    """The model's own `act`, behind the agent's own scaler, with the ports of `source`."""
    actor = source.module
    assert isinstance(actor, Actor)
    network = actor.network.network if isinstance(actor.network, Ended) else actor.network
    assert isinstance(network, ChainNetwork)
    if "q_network" in contents.tree:
        return "an agent takes the best of its Q values, which is not a model's own act"
    facts = {fact.name: fact.value for fact in answers.facts}
    told = _definition(network, network.chain, facts)
    if isinstance(told, str):
        return told
    head = facts["output"]
    spread = "log_std_parameter" in contents.tensors("policy")
    kind = {"argmax": "categorical", "multi_discrete": "multicategorical"}.get(
        head, "gaussian" if spread else "deterministic"
    )
    if "to_bounds" in head and head != "clip_to_bounds":
        return f"no output expression of skrl is {head}"
    model = _model(contents, source, told, kind, facts, network)
    if isinstance(model, str):
        return model
    return replace(
        source,
        module=Predict(model, _scaler(contents, network), "policy"),
        normalizer=None,
        action=(),
        meaning=source.meaning or Action(output="action", kind="continuous"),
    )


class Predict(Step):
    """An evaluation as trainers do it; the instantiator's models take flat observations."""

    def forward(self, **ports: Tensor) -> Tensors:
        return super().forward(**{OBS: ports[OBS].float().flatten(1)})


def _definition(
    network: ChainNetwork, chain: Chain, facts: Mapping[str, str]
) -> list[dict[str, Any]] | str:
    """The section `network` of an agent.yaml that makes the same layers, or why there is none."""
    names = {each.place[0] for each in chain.layers}
    if len(names) != 1 or not next(iter(names)).endswith(_CONTAINER):
        return "its model is not one that skrl's instantiator makes for a policy alone"
    if any(each.kind not in ("conv", "linear") for each in chain.layers):
        return "its model has layers that skrl's instantiator does not make"
    activation = facts["activation"].lower()
    if activation not in _ACTIVATIONS:
        return f"skrl's instantiator has no activation {activation}"
    layers: list[Any] = []
    convs = 0
    for before, own in zip((None, *chain.layers), chain.layers[:-1], strict=False):
        if own.kind == "conv":
            assert network.images is not None
            layers.append({"conv2d": {
                "out_channels": own.outputs, "kernel_size": tuple(own.weights["weight"].shape[2:]),
                "stride": network.images.strides[convs], "padding": network.images.padding[convs],
            }})  # fmt: skip
            convs += 1
        else:
            layers += ["flatten"] if before is not None and before.kind == "conv" else []
            layers.append(own.outputs)
    seen = "OBSERVATIONS"
    if network.images is not None:
        seen = "permute(OBSERVATIONS, (0, 3, 1, 2))" if network.images.channels_last else seen
        seen = f"({seen} - {network.images.shift}) / {network.images.divisor}"
    name = next(iter(names)).removesuffix(_CONTAINER)
    return [{"name": name, "input": seen, "layers": layers, "activations": activation}]


def _model(
    contents: Contents,
    source: Source,
    network: list[dict[str, Any]],
    kind: str,
    facts: Mapping[str, str],
    rebuilt: ChainNetwork,
) -> Any:
    makers: Any = need("skrl.utils.model_instantiators.torch", extra="people")
    version: Any = need("skrl", extra="people")
    if str(version.__version__) < "2":
        return f"skrl {version.__version__} is installed; models are made by version 2"
    spaces: Any = need("gymnasium.spaces", extra="gym")
    seen = observation_box(source.example["obs"])
    head = facts["output"]
    more: dict[str, Any] = {}
    size = rebuilt.chain.layers[-1].outputs
    if kind in _CONTINUOUS:
        more[_CONTINUOUS[kind]] = head == "clip_to_bounds"
    model = getattr(makers, f"{kind}_model")(
        observation_space=seen, action_space=_actions(spaces, kind, size, facts), device="cpu",
        network=network, output=_OUTPUTS.get(head, head if kind in _CONTINUOUS else "ACTIONS"),
        **more,
    )  # fmt: skip
    model.init_state_dict(role="policy")
    try:
        model.load_state_dict(dict(contents.tensors("policy")))
    except RuntimeError as error:
        return f"skrl's instantiator makes other weights: {str(error).splitlines()[-1].strip()}"
    return model.eval()


def _actions(spaces: Any, kind: str, size: int, facts: Mapping[str, str]) -> Any:
    if kind == "categorical":
        return spaces.Discrete(size)
    if kind == "multicategorical":
        return spaces.MultiDiscrete(
            [int(each) for each in facts["sizes"].strip("[]() ").split(",")]
        )
    return action_box(facts, size, limit=np.inf)


def _scaler(contents: Contents, network: ChainNetwork) -> Any:
    """The agent's own scaler with its statistics; None where it has none."""
    own = next((found for name in _SCALERS if (found := contents.tensors(name))), None)
    if own is None:
        return None
    makers: Any = need("skrl.resources.preprocessors.torch", extra="people")
    scaler = makers.RunningStandardScaler(size=own["running_mean"].numel(), device="cpu")
    scaler.load_state_dict(dict(own))
    return scaler.eval()
