"""TorchRL: policies over TensorDicts, recurrent, distributional, of several agents."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tests.user_policies.cases import Family, Live, mlp

people = Family("TorchRL", framework=True)

OBS = {"observation": torch.zeros(1, 8)}
DETERMINISTIC = {"exploration": "deterministic"}


def over_tensordicts(module: nn.Module) -> Live:
    """The policy at work, as a collector has it: what it says for the next step is handed back."""
    from tensordict import TensorDict
    from torchrl.envs.utils import ExplorationType, set_exploration_type

    carried: dict[Any, Tensor] = {}

    def call(given: dict[str, Tensor]) -> Tensor:
        rows = next(iter(given.values())).shape[0]
        start = torch.full((rows, 1), not carried)
        td = TensorDict({**given, **carried, "is_init": start}, batch_size=[rows])
        with set_exploration_type(ExplorationType.DETERMINISTIC):
            out = module(td)
        carried["_"] = torch.zeros(rows, 1)
        if "next" in out.keys():  # noqa: SIM118
            carried.update(out["next"].items())
        action: Tensor = out["action"]
        return action

    return call


def told(**keywords: Any) -> dict[str, Any]:
    return {**keywords, "live": over_tensordicts}


@people.case(OBS, **told())
def actor() -> nn.Module:
    from torchrl.modules import Actor

    return Actor(mlp(8, 32, 2), in_keys=["observation"])


@people.case(OBS, **told(**DETERMINISTIC))
def tanh_normal() -> nn.Module:
    from tensordict.nn import TensorDictModule
    from torchrl.modules import NormalParamExtractor, ProbabilisticActor, TanhNormal

    net = nn.Sequential(mlp(8, 32, 4), NormalParamExtractor())
    return ProbabilisticActor(
        TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"], distribution_class=TanhNormal,
        distribution_kwargs={"low": -2.0, "high": 1.0},
    )  # fmt: skip


# `exploration` left out: the actor itself says that it acts deterministically.
@people.case(OBS, **told())
def normal_unasked() -> nn.Module:
    from tensordict.nn import TensorDictModule
    from torchrl.modules import IndependentNormal, NormalParamExtractor, ProbabilisticActor

    net = nn.Sequential(mlp(8, 32, 4), NormalParamExtractor())
    return ProbabilisticActor(
        TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"], distribution_class=IndependentNormal,
    )  # fmt: skip


@people.case(OBS, **told(**DETERMINISTIC))
def categorical() -> nn.Module:
    from tensordict.nn import TensorDictModule
    from torchrl.modules import OneHotCategorical, ProbabilisticActor

    return ProbabilisticActor(
        TensorDictModule(mlp(8, 32, 4), in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"], distribution_class=OneHotCategorical,
    )  # fmt: skip


@people.case(OBS, **told())
def q_values() -> nn.Module:
    from torchrl.data import OneHot
    from torchrl.modules import QValueActor

    return QValueActor(mlp(8, 32, 4), in_keys=["observation"], spec=OneHot(4))


def recurrent(kind: str) -> nn.Module:
    from tensordict.nn import TensorDictModule, TensorDictSequential
    from torchrl import modules

    cell = getattr(modules, kind)(
        input_size=8, hidden_size=16, in_key="observation", out_key="feature"
    )
    head = TensorDictModule(nn.Linear(16, 2), in_keys=["feature"], out_keys=["action"])
    return TensorDictSequential(cell, head)


@people.case(OBS, **told())
def lstm() -> nn.Module:
    return recurrent("LSTMModule")


@people.case({"observation": torch.zeros(4, 8)}, **told())
def gru() -> nn.Module:
    return recurrent("GRUModule")


@people.case({"observation": torch.zeros(1, 3, 8)}, **told())
def several_agents() -> nn.Module:
    from tensordict.nn import TensorDictModule
    from torchrl.modules import MultiAgentMLP

    net = MultiAgentMLP(
        n_agent_inputs=8, n_agent_outputs=2, n_agents=3, centralized=False, share_params=False,
        depth=2, num_cells=16,
    )  # fmt: skip
    return TensorDictModule(net, in_keys=["observation"], out_keys=["action"])


# The layers alone, in a plain module.
@people.case({"obs": torch.zeros(1, 8)})
def noisy_layers() -> nn.Module:
    from torchrl.modules import NoisyLinear

    return nn.Sequential(NoisyLinear(8, 16), nn.ReLU(), NoisyLinear(16, 3)).eval()


@people.case({"pixels": torch.zeros(1, 4, 36, 36)})
def duelling() -> nn.Module:
    from torchrl.modules import DuelingCnnDQNet

    net = DuelingCnnDQNet(out_features=4, mlp_kwargs={"num_cells": [16]})
    net(torch.zeros(1, 4, 36, 36))
    return net


@people.case({"observation": torch.zeros(1, 1, 20, 20)}, **told())
def convolutional() -> nn.Module:
    from tensordict.nn import TensorDictModule
    from torchrl.modules import ConvNet

    net = nn.Sequential(ConvNet(in_features=1, num_cells=[4, 8], kernel_sizes=3), nn.LazyLinear(3))
    net(torch.zeros(1, 1, 20, 20))
    return TensorDictModule(net, in_keys=["observation"], out_keys=["action"])
