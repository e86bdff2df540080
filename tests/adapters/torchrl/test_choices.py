"""A TorchRL policy chooses inside its modules: its logits and ties are checked all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from tensordict.nn import ProbabilisticTensorDictModule, TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.data import Categorical, OneHot
from torchrl.modules import OneHotCategorical, QValueActor

import roadworthy as rw


def network() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))


def values(one_hot: bool) -> Any:
    spec = OneHot(2) if one_hot else Categorical(2)
    return QValueActor(module=network(), in_keys=["observation"], spec=spec)


def distribution(kind: Any) -> Any:
    head = ProbabilisticTensorDictModule(
        in_keys=["logits"], out_keys=["action"], distribution_class=kind
    )
    module = TensorDictModule(network(), in_keys=["observation"], out_keys=["logits"])
    return TensorDictSequential(module, head)


POLICIES = {
    "values": lambda: values(False),
    "values, one-hot": lambda: values(True),
    "categorical": lambda: distribution(torch.distributions.Categorical),
    "categorical, one-hot": lambda: distribution(OneHotCategorical),
}
EXAMPLE = {"observation": torch.zeros(1, 4)}


@pytest.mark.parametrize("name", POLICIES)
def test_the_numbers_behind_the_action_are_compared(name: str, tmp_path: Path) -> None:
    policy = POLICIES[name]()
    said = {"example": EXAMPLE, "exploration": "deterministic"}
    bundle = rw.export(policy, tmp_path / "b", **said)
    certificate = rw.Certificate.from_bytes(bundle.files["certificate.json"])
    assert "logits" in [check.name for check in certificate.checks]
    with torch.no_grad():
        last = [each for each in policy.modules() if isinstance(each, nn.Linear)][-1]
        last.bias += 1e-3 * torch.arange(2)
    again = rw.verify(tmp_path / "b", against=policy, **said)
    assert "logits" in [check.name for check in again.checks if not check.passed]


class Resting(gym.Env[Any, Any]):
    """Always the same observation: zeros, for which two logits are made equal."""

    observation_space = gym.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.steps = 0
        return np.zeros(4, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return np.zeros(4, np.float32), 1.0, self.steps >= 5, False, {}


def tied(shift: float) -> Any:
    policy = values(one_hot=False)
    with torch.no_grad():
        linear = [each for each in policy.modules() if isinstance(each, nn.Linear)]
        linear[0].bias.zero_()
        linear[1].bias.copy_(torch.tensor([1.0 + shift, 1.0 - shift]))
    return policy


def test_a_tie_of_the_values_is_forgiven_and_counted(tmp_path: Path) -> None:
    """The artifact prefers action 1 by a hair, the original action 0: within the margin, a tie."""
    said = {"example": EXAMPLE, "exploration": "deterministic"}
    rw.export(tied(-2e-6), tmp_path / "b", **said)
    loop = rw.ClosedLoop(Resting, episodes=2, tie_margin=1e-5)
    certificate = rw.verify(tmp_path / "b", against=tied(2e-6), env=loop, **said)
    (teacher,) = [check for check in certificate.checks if check.name == "teacher"]
    assert teacher.facts["ties"] == 10
    assert teacher.passed
    apart = rw.verify(tmp_path / "b", against=tied(2e-3), env=loop, **said)
    (teacher,) = [check for check in apart.checks if check.name == "teacher"]
    assert (teacher.facts["ties"], teacher.passed) == (0, False)
