"""skrl 2: models of the mixins and of the instantiators, and its preprocessor."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tests.user_policies.cases import Family, carrying, mlp

people = Family("skrl", framework=True)

OBSERVATIONS = {"observations": torch.zeros(1, 10)}
NETWORK = [{"name": "net", "input": "OBSERVATIONS", "layers": [32, 32], "activations": "elu"}]


def spaces(actions: Any = None) -> dict[str, Any]:
    from gymnasium.spaces import Box

    return {
        "observation_space": Box(-np.inf, np.inf, (10,)),
        "action_space": actions or Box(-1.0, 1.0, (3,)),
        "device": "cpu",
    }


def initialised(model: Any) -> nn.Module:
    """Its lazy layers run once, as every agent of skrl does at the start."""
    for role in ("policy", "value"):
        model.init_state_dict(role=role)
    result: nn.Module = model
    return result


def mean(model: Any, observations: Tensor) -> Tensor:
    """What skrl's trainers do in evaluation."""
    _, outputs = model.act({"observations": observations}, role="policy")
    action: Tensor = outputs["mean_actions"]
    return action


def computed(model: Any, observations: Tensor) -> Tensor:
    action: Tensor = model.compute({"observations": observations}, role="policy")[0]
    return action


def gaussian() -> Any:
    from skrl.models.torch import GaussianMixin, Model

    class Policy(GaussianMixin, Model):  # type: ignore[misc]
        def __init__(self) -> None:
            Model.__init__(self, **spaces())
            GaussianMixin.__init__(self, clip_actions=True)
            self.net = mlp(10, 32, 32, 3)
            self.log_std = nn.Parameter(torch.zeros(3))

        def compute(self, inputs: dict[str, Tensor], role: str) -> Any:
            return torch.tanh(self.net(inputs["observations"])), {"log_std": self.log_std}

    return Policy()


@people.case(OBSERVATIONS, method=mean)
def gaussian_mean() -> nn.Module:
    policy: nn.Module = gaussian()
    return policy


@people.case(OBSERVATIONS, method=computed)
def gaussian_computed() -> nn.Module:
    policy: nn.Module = gaussian()
    return policy


# The user says which method acts, and that its role is constant; the dict is the only argument.
@people.case(
    {"inputs": OBSERVATIONS}, method="compute", constants={"role": "policy"},
    outputs=("actions", None),
)  # fmt: skip
def gaussian_by_name() -> nn.Module:
    policy: nn.Module = gaussian()
    return policy


@people.case(OBSERVATIONS, method=mean)
def gaussian_instantiated() -> nn.Module:
    from skrl.utils.model_instantiators.torch import gaussian_model

    return initialised(
        gaussian_model(
            **spaces(), clip_mean_actions=True, network=NETWORK, output="0.7 * tanh(ACTIONS)"
        )
    )


@people.case(OBSERVATIONS, method=computed)
def deterministic_instantiated() -> nn.Module:
    from skrl.utils.model_instantiators.torch import deterministic_model

    return initialised(
        deterministic_model(**spaces(), clip_actions=True, network=NETWORK, output="ACTIONS")
    )


@people.case(OBSERVATIONS, method=computed)
def categorical_instantiated() -> nn.Module:
    from gymnasium.spaces import Discrete
    from skrl.utils.model_instantiators.torch import categorical_model

    return initialised(categorical_model(**spaces(Discrete(4)), network=NETWORK, output="ACTIONS"))


@people.case(OBSERVATIONS, method=computed)
def shared_instantiated() -> nn.Module:
    from skrl.utils.model_instantiators.torch import shared_model

    acting = {
        "network": NETWORK, "output": "ACTIONS", "clip_actions": False, "clip_log_std": True,
        "min_log_std": -20, "max_log_std": 2, "initial_log_std": 0, "reduction": "sum",
    }  # fmt: skip
    valuing = {"network": NETWORK, "output": "ONE", "clip_actions": False}
    return initialised(
        shared_model(
            **spaces(),
            roles=["policy", "value"],
            structure=["GaussianMixin", "DeterministicMixin"],
            parameters=[acting, valuing],
        )
    )


# The policy with its observation preprocessor in front, as the agent calls them.
@people.case(OBSERVATIONS)
def preprocessed() -> nn.Module:
    from skrl.resources.preprocessors.torch import RunningStandardScaler

    class Agent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scaler = RunningStandardScaler(size=10, device="cpu")
            self.scaler(2.0 * torch.randn(256, 10) + 0.5, train=True)
            self.policy = gaussian()

        def forward(self, observations: Tensor) -> Tensor:
            return computed(self.policy, self.scaler(observations))

    return Agent()


ZEROS = torch.zeros(1, 1, 16)


def lstm_acts(model: Any, observations: Tensor, h: Tensor, c: Tensor) -> Any:
    action, outputs = model.compute({"observations": observations, "rnn": [h, c]}, role="policy")
    return action, *outputs["rnn"]


def lstm_step(model: nn.Module, given: Any, state: Any) -> Any:
    action, *state = lstm_acts(model, given["observations"], *state)
    return action, state


@people.case(
    OBSERVATIONS,
    method=lstm_acts,
    memory={"h": ZEROS, "c": ZEROS},
    live=carrying(lstm_step, lambda: [ZEROS, ZEROS]),
)
def gaussian_lstm() -> nn.Module:
    from skrl.models.torch import GaussianMixin, Model

    class Policy(GaussianMixin, Model):  # type: ignore[misc]
        def __init__(self) -> None:
            Model.__init__(self, **spaces())
            GaussianMixin.__init__(self)
            self.lstm = nn.LSTM(10, 16, batch_first=True)
            self.net = nn.Linear(16, 3)
            self.log_std = nn.Parameter(torch.zeros(3))

        def compute(self, inputs: dict[str, Any], role: str) -> Any:
            rnn = (inputs["rnn"][0], inputs["rnn"][1])
            features, state = self.lstm(inputs["observations"].view(-1, 1, 10), rnn)
            action = self.net(torch.flatten(features, 0, 1))
            return action, {"log_std": self.log_std, "rnn": [state[0], state[1]]}

    return Policy()
