"""rl_games: models of its builders, with the scripted normaliser, asked as its players ask."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import torch
from torch import Tensor, nn

from tests.user_policies.cases import Family, carrying

people = Family("rl_games", framework=True)

OBS = {"obs": torch.zeros(1, 10)}
CONTINUOUS = {
    "mu_activation": "None", "sigma_activation": "None", "mu_init": {"name": "default"},
    "sigma_init": {"name": "const_initializer", "val": 0}, "fixed_sigma": True,
}  # fmt: skip
MLP = {"units": [32, 16], "activation": "elu", "initializer": {"name": "default"}}


def model(
    kind: str, space: dict[str, Any], actions: Any = 3, shape: Any = (10,), **network: Any
) -> Any:
    from rl_games.algos_torch.model_builder import ModelBuilder

    described = {
        "model": {"name": kind},
        "network": {
            "name": "actor_critic",
            "separate": False,
            "mlp": MLP,
            "space": space,
            **network,
        },
    }
    with contextlib.redirect_stdout(io.StringIO()):
        built = ModelBuilder().load(described).build(
            {
                "actions_num": actions, "input_shape": shape, "num_seqs": 1, "value_size": 1,
                "normalize_value": True, "normalize_input": True,
            }
        )  # fmt: skip
    statistics = built.running_mean_std
    statistics.running_mean += torch.linspace(-1, 1, shape[-1])
    statistics.running_var *= 2.0
    return built.eval()


def mus(model: Any, obs: Tensor) -> Tensor:
    """What a player does: one dict with flags in it, and the mean of what comes back."""
    action: Tensor = model(
        {"is_train": False, "prev_actions": None, "obs": obs, "rnn_states": None}
    )["mus"]
    return action


def logits(model: Any, obs: Tensor) -> Any:
    return model({"is_train": False, "prev_actions": None, "obs": obs, "rnn_states": None})[
        "logits"
    ]


def clipped(model: Any, obs: Tensor) -> Tensor:
    return torch.clamp(mus(model, obs), -1.0, 1.0)


@people.case(OBS, method=mus)
def continuous() -> nn.Module:
    net: nn.Module = model("continuous_a2c_logstd", {"continuous": CONTINUOUS})
    return net


@people.case(OBS, method=clipped)
def continuous_separate() -> nn.Module:
    net: nn.Module = model("continuous_a2c_logstd", {"continuous": CONTINUOUS}, separate=True)
    return net


@people.case(OBS, method=mus)
def continuous_d2rl() -> nn.Module:
    net: nn.Module = model(
        "continuous_a2c_logstd", {"continuous": CONTINUOUS}, mlp={**MLP, "d2rl": True},
        normalization="layer_norm",
    )  # fmt: skip
    return net


@people.case(OBS, method=mus)
def continuous_tanh() -> nn.Module:
    net: nn.Module = model(
        "continuous_a2c_logstd", {"continuous": {**CONTINUOUS, "mu_activation": "tanh"}}
    )
    return net


@people.case(OBS, method=logits)
def discrete() -> nn.Module:
    net: nn.Module = model("discrete_a2c", {"discrete": {}}, actions=4)
    return net


@people.case(OBS, method=lambda m, obs: torch.argmax(logits(m, obs), dim=-1))
def discrete_player() -> nn.Module:
    net: nn.Module = model("discrete_a2c", {"discrete": {}}, actions=4)
    return net


@people.case(
    OBS, method=lambda m, obs: torch.stack([part.argmax(-1) for part in logits(m, obs)], -1)
)
def multi_discrete() -> nn.Module:
    net: nn.Module = model("multi_discrete_a2c", {"multi_discrete": {}}, actions=(3, 4))
    return net


LSTM = {"name": "lstm", "units": 16, "layers": 1, "before_mlp": True, "layer_norm": True}
ZEROS = torch.zeros(1, 1, 16)


def with_state(model: Any, obs: Tensor, h: Tensor, c: Tensor) -> Any:
    result = model({"is_train": False, "prev_actions": None, "obs": obs, "rnn_states": (h, c)})
    return result["mus"], *result["rnn_states"]


def lstm_step(model: nn.Module, given: Any, state: Any) -> Any:
    action, *state = with_state(model, given["obs"], *state)
    return action, state


@people.case(
    OBS,
    method=with_state,
    memory={"h": ZEROS, "c": ZEROS},
    live=carrying(lstm_step, lambda: [ZEROS, ZEROS]),
)
def lstm() -> nn.Module:
    net: nn.Module = model("continuous_a2c_logstd", {"continuous": CONTINUOUS}, rnn=LSTM)
    return net


def with_hidden(model: Any, obs: Tensor, h: Tensor) -> Any:
    result = model({"is_train": False, "prev_actions": None, "obs": obs, "rnn_states": (h,)})
    return result["mus"], result["rnn_states"][0]


@people.case(
    OBS,
    method=with_hidden,
    memory={"h": ZEROS},
    live=carrying(lambda m, given, h: with_hidden(m, given["obs"], h), lambda: ZEROS),
)
def gru_after_mlp() -> nn.Module:
    gru = {"name": "gru", "units": 16, "layers": 1, "concat_output": True}
    net: nn.Module = model("continuous_a2c_logstd", {"continuous": CONTINUOUS}, rnn=gru)
    return net


@people.case({"obs": torch.zeros(1, 16, 16, 3)}, method=mus)
def pixels() -> nn.Module:
    convs = [
        {"filters": 4, "kernel_size": 3, "strides": 2, "padding": 0},
        {"filters": 8, "kernel_size": 3, "strides": 2, "padding": 0},
    ]
    cnn = {
        "type": "conv2d",
        "activation": "elu",
        "initializer": {"name": "default"},
        "convs": convs,
    }
    net: nn.Module = model(
        "continuous_a2c_logstd", {"continuous": CONTINUOUS}, shape=(16, 16, 3), cnn=cnn
    )
    return net


# Only the network, as it stands in the checkpoint under `a2c_network`.
@people.case(OBS, method=lambda m, obs: m({"obs": obs})[0])
def network_alone() -> nn.Module:
    net: nn.Module = model("continuous_a2c_logstd", {"continuous": CONTINUOUS}).a2c_network
    return net
