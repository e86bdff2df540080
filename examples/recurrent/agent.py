"""The world for TorchRL, and a policy with an LSTM that finds the velocities out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torch.distributions import Categorical
from torchrl.envs import (
    Compose,
    GymWrapper,
    InitTracker,
    ObservationNorm,
    StepCounter,
    TransformedEnv,
)
from torchrl.modules import LSTMModule, ProbabilisticActor
from world import make_world

USUAL = (0.5, 0.05)  # how far the cart, in metres, and the pole, in radians, are usually off


def make_policy() -> ProbabilisticActor:
    """Positions → LSTM → logits → left or right."""
    lstm = LSTMModule(2, 32, in_key="observation", out_key="feature")
    head = TensorDictModule(nn.Linear(32, 2), in_keys=["feature"], out_keys=["logits"])
    return ProbabilisticActor(
        TensorDictSequential(lstm, head), in_keys=["logits"], distribution_class=Categorical
    )


def make_env(policy: Any) -> TransformedEnv:
    """The world, with what the LSTM needs: `is_init` at each reset, and a first hidden state."""
    primers = [each for each in policy.modules() if isinstance(each, LSTMModule)]
    return TransformedEnv(
        GymWrapper(make_world(), categorical_action_encoding=True),
        Compose(
            ObservationNorm(
                0.0, torch.tensor(USUAL), in_keys=["observation"], standard_normal=True
            ),
            InitTracker(),
            *(each.make_tensordict_primer() for each in primers),
            StepCounter(),
        ),
    )


def load(checkpoint: Path) -> tuple[Any, Any]:
    """The environment, and the policy that `train.py` saved."""
    policy = make_policy()
    policy.load_state_dict(torch.load(checkpoint, weights_only=True))
    return make_env(policy), policy.eval()
