"""The layout of rsl_rl 1, which no package index has: written here as its runner wrote it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

import roadworthy as rw
from tests.checkpoints.stepping import Stepped

SAID = {"activation": "elu", "clip_actions": "none", "action_scale": "none"}


def mlp(inputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, 16), nn.ELU(), nn.Linear(16, 8), nn.ELU(), nn.Linear(8, 3)
    )


def saved(folder: Path, **parts: nn.Module) -> Path:
    weights = {"std": torch.ones(3)}
    for name, part in parts.items():
        weights |= {f"{name}.{key}": value for key, value in part.state_dict().items()}
    held = {"model_state_dict": weights, "optimizer_state_dict": {}, "iter": 300, "infos": None}
    torch.save(held, folder / "model_300.pt")
    return folder / "model_300.pt"


def test_an_mlp_is_rebuilt(tmp_path: Path) -> None:
    actor, critic = mlp(10), nn.Sequential(nn.Linear(10, 1))
    source = rw.to_source(saved(tmp_path, actor=actor, critic=critic), assume=SAID)
    obs = torch.randn(1000, 10)
    got = Stepped(source, 1000).step({"obs": obs})
    np.testing.assert_allclose(got["action"], actor(obs).detach(), atol=1e-5)


def test_a_recurrent_actor_is_rebuilt(tmp_path: Path) -> None:
    actor, critic, rnns = mlp(12), nn.Sequential(nn.Linear(12, 1)), [nn.LSTM(10, 12) for _ in "ac"]
    parts = {"actor": actor, "critic": critic}
    memories = {f"memory_{s}": nn.ModuleDict({"rnn": r}) for s, r in zip("ac", rnns, strict=True)}
    source = rw.to_source(saved(tmp_path, **parts, **memories), assume=SAID)
    stepped, state = Stepped(source, 5), None
    for _ in range(200):
        obs = torch.randn(5, 10)
        out, state = rnns[0](obs[None], state)
        np.testing.assert_allclose(
            stepped.step({"obs": obs})["action"], actor(out[0]).detach(), atol=1e-5
        )
