"""Pong as TorchRL sees it, and a deep Q-network for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import Tensor, nn
from torchrl.envs import (
    CatFrames,
    Compose,
    GrayScale,
    GymEnv,
    ObservationNorm,
    StepCounter,
    ToTensorImage,
    TransformedEnv,
    UnaryTransform,
)
from torchrl.modules import QValueModule

FRAMES_PER_ACTION = 4
GREY_OF_FIELD, CONTRAST = 0.342, 0.1  # so that the empty field is zero


def field(screen: Tensor) -> Tensor:
    """Every other pixel of the field without the score: (210, 160, 3) becomes (80, 80, 3)."""
    return screen[..., 34:194:2, ::2, :]


def make_env() -> TransformedEnv:
    """Pong, as small grey frames of which the policy sees the last four.

    TorchRL sets the frame skip to 1 where nothing else is said, whatever the id says.
    """
    game = GymEnv("ALE/Pong-v5", frame_skip=FRAMES_PER_ACTION, categorical_action_encoding=True)
    return TransformedEnv(
        game,
        Compose(
            UnaryTransform(in_keys=["pixels"], out_keys=["pixels"], fn=field),
            ToTensorImage(),
            GrayScale(),
            ObservationNorm(GREY_OF_FIELD, CONTRAST, in_keys=["pixels"], standard_normal=True),
            CatFrames(4, dim=-3),
            StepCounter(),
        ),
    )


def make_policy(env: Any) -> TensorDictSequential:
    """Four frames → the value of each action → the best of them."""
    network = nn.Sequential(
        nn.Conv2d(4, 32, 8, 4), nn.ReLU(),
        nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
        nn.Conv2d(64, 64, 3, 1), nn.ReLU(),
        nn.Flatten(-3),
        nn.Linear(64 * 6 * 6, 512), nn.ReLU(),
        nn.Linear(512, env.action_spec.space.n),
    )  # fmt: skip
    values = TensorDictModule(network, in_keys=["pixels"], out_keys=["action_value"])
    return TensorDictSequential(values, QValueModule(spec=env.action_spec))


def load_policy(checkpoint: Path, env: Any) -> TensorDictSequential:
    """The policy that `train.py` saved."""
    policy = make_policy(env)
    policy.load_state_dict(torch.load(checkpoint, weights_only=True))
    return policy.eval()
