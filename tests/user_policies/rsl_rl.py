"""rsl_rl 5: its models, their exporters' twins, and what people keep beside them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tests.user_policies.cases import HINT, Family, as_one, carrying

people = Family("rsl_rl", framework=True)

POLICY = {"policy": torch.zeros(1, 12)}
GROUPS = {"policy": torch.zeros(1, 12), "command": torch.zeros(1, 3)}
CAMERA = {"policy": torch.zeros(1, 12), "depth": torch.zeros(1, 1, 16, 16)}


def model(kind: str, example: dict[str, Tensor] = POLICY, **settings: Any) -> Any:
    from rsl_rl import models
    from tensordict import TensorDict

    built = getattr(models, kind)(
        TensorDict(example, batch_size=[1]), {"actor": list(example)}, "actor", 4,
        hidden_dims=(32, 32), **settings,
    )  # fmt: skip
    if settings.get("obs_normalization"):
        built.train()
        for _ in range(3):
            drawn = {
                name: 1.5 * torch.randn(64, *value.shape[1:]) + 0.3
                for name, value in example.items()
            }
            built.update_normalization(TensorDict(drawn, batch_size=[64]))
    return built.eval()


@people.case(POLICY, live=as_one)
def mlp_model() -> nn.Module:
    return model("MLPModel")


@people.case(POLICY, live=as_one)
def mlp_normalised() -> nn.Module:
    return model("MLPModel", obs_normalization=True)


@people.case(GROUPS, live=as_one)
def mlp_two_groups() -> nn.Module:
    return model("MLPModel", GROUPS, obs_normalization=True)


@people.case(POLICY, live=as_one)
def mlp_gaussian() -> nn.Module:
    return model("MLPModel", distribution_cfg={"class_name": "GaussianDistribution"})


@people.case(POLICY, live=as_one)
def mlp_heteroscedastic() -> nn.Module:
    return model("MLPModel", distribution_cfg={"class_name": "HeteroscedasticGaussianDistribution"})


@people.case(POLICY, live=as_one)
def mlp_beta() -> nn.Module:
    return model("MLPModel", distribution_cfg={"class_name": "BetaDistribution"})


@people.case(POLICY, live=as_one)
def lstm_model() -> nn.Module:
    return model("RNNModel", rnn_hidden_dim=16, obs_normalization=True)


@people.case(POLICY, live=as_one)
def gru_model() -> nn.Module:
    return model("RNNModel", rnn_type="gru", rnn_hidden_dim=16, rnn_num_layers=2)


@people.case(CAMERA, live=as_one)
def cnn_model() -> nn.Module:
    convolutions = {
        "output_channels": [4, 8],
        "kernel_size": [3, 3],
        "stride": [2, 2],
        "activation": "elu",
    }
    return model("CNNModel", CAMERA, cnn_cfg=convolutions)


@people.case({"x": torch.zeros(1, 12)})
def as_jit() -> nn.Module:
    twin: nn.Module = model("MLPModel", obs_normalization=True).as_jit()
    return twin


@people.case({"x": torch.zeros(1, 12)}, then=HINT)
def lstm_as_jit() -> nn.Module:
    twin: nn.Module = model("RNNModel", rnn_hidden_dim=16).as_jit()
    return twin


ZEROS = torch.zeros(1, 1, 16)


def lstm_step(twin: nn.Module, given: Any, state: Any) -> Any:
    action, h, c = twin(given["obs"], *state)
    return action, (h, c)


@people.case(
    {"obs": torch.zeros(1, 12)},
    memory={"h_in": ZEROS, "c_in": ZEROS},
    live=carrying(lstm_step, lambda: (ZEROS, ZEROS)),
)
def lstm_as_onnx() -> nn.Module:
    twin: nn.Module = model("RNNModel", rnn_hidden_dim=16).as_onnx()
    return twin
