"""Checkpoints of Sample-Factory 2: an actor-critic as its learner saves it, and config.json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.spaces import Tuple as Several

from tests.checkpoints.recording import Written

SETTINGS = (
    "algo", "nonlinearity", "encoder_mlp_layers", "decoder_mlp_layers", "use_rnn", "rnn_type",
    "rnn_size", "rnn_num_layers", "actor_critic_share_weights", "adaptive_stddev",
    "continuous_tanh_scale", "normalize_input", "normalize_returns", "obs_subtract_mean",
    "obs_scale", "encoder_conv_architecture", "encoder_conv_mlp_layers",
)  # fmt: skip


def cases(version: str) -> Iterator[Written]:
    """Checkpoints of the installed version, which must be this one."""
    moves = Box(-1.0, 1.0, (3,), np.float32)
    yield learner("continuous", moves, {}, adaptive_stddev=False, use_rnn=False)
    yield learner("tanh-separate", moves, {}, adaptive_stddev=False, use_rnn=False,
                  continuous_tanh_scale=2.0, actor_critic_share_weights=False, obs_scale=4.0,
                  obs_subtract_mean=0.5, nonlinearity="tanh")  # fmt: skip
    yield learner("adaptive-gru", moves, {"action_space": "continuous"}, adaptive_stddev=True,
                  use_rnn=True, rnn_type="gru")  # fmt: skip
    yield learner("discrete-lstm", Discrete(4), {"action_space": "4"}, use_rnn=True,
                  rnn_type="lstm", nonlinearity="relu")  # fmt: skip
    yield learner("several", Several([Discrete(3), Discrete(4)]), {"action_space": "3,4"},
                  use_rnn=False, normalize_input=False)  # fmt: skip
    seen = {"obs": Box(0, 255, (3, 28, 36), np.uint8)}
    yield learner("conv", Discrete(4), {"action_space": "4"}, seen, use_rnn=False, obs_scale=255.0,
                  encoder_conv_architecture="convnet_impala")  # fmt: skip
    yield learner("conv-gru-separate", moves, {"image": "1,40,36"},
                  {"obs": Box(0, 255, (1, 40, 36), np.uint8)}, use_rnn=True, rnn_type="gru",
                  adaptive_stddev=False, actor_critic_share_weights=False, obs_subtract_mean=128.0,
                  obs_scale=64.0, normalize_input=False, nonlinearity="relu",
                  encoder_conv_architecture="convnet_impala")  # fmt: skip
    yield learner("conv-atari", Discrete(4), {"action_space": "4"},
                  {"obs": Box(0, 255, (1, 36, 40), np.uint8)}, use_rnn=False, obs_scale=255.0,
                  normalize_input=True, encoder_conv_architecture="convnet_atari")  # fmt: skip
    yield learner("residual-and-vector", moves, {},
                  {"obs": Box(0, 255, (3, 12, 16), np.uint8), "speed": Box(-1.0, 1.0, (4,))},
                  use_rnn=False, obs_scale=255.0, nonlinearity="relu", adaptive_stddev=False,
                  encoder_conv_architecture="resnet_impala")  # fmt: skip


def learner(
    name: str, space: Any, assume: dict[str, object], seen: Any = None, **settings: Any
) -> Written:
    from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
    from sample_factory.model.actor_critic import create_actor_critic
    from sample_factory.model.model_utils import get_rnn_size
    from sample_factory.utils.attr_dict import AttrDict

    parser, _ = parse_sf_args(["--env=none", "--algo=APPO", "--experiment=x"])
    cfg = AttrDict(vars(parse_full_cfg(parser, ["--env=none", "--algo=APPO", "--experiment=x"])))
    sizes = {"encoder_mlp_layers": [16, 12], "decoder_mlp_layers": [8], "rnn_size": 8,
             "encoder_conv_mlp_layers": [16]}  # fmt: skip
    cfg.update({**sizes, **settings})
    observed = Dict(seen or {"obs": Box(-np.inf, np.inf, (10,), np.float32)})
    model = create_actor_critic(cfg, observed, space)
    pixels = tuple(name for name, each in observed.items() if each.dtype == np.uint8)
    model.train()
    if cfg.normalize_input:
        model.normalize_obs({
            name: torch.randint(0, 256, (64, *each.shape), dtype=torch.uint8) if name in pixels
            else 1.5 * torch.randn(256 if not pixels else 64, *each.shape) + 0.3
            for name, each in observed.items()
        })  # fmt: skip
    model.returns_normalizer(3.0 * torch.randn(256, 1) + 0.5)
    model.eval()
    with torch.no_grad():
        for value in model.parameters():
            value.add_((0.02 if pixels else 0.1) * torch.randn_like(value))
    state = torch.zeros(5 if cfg.use_rnn else 1000, get_rnn_size(cfg))

    def save(folder: Path) -> str:
        (folder / "checkpoint_p0").mkdir(exist_ok=True)
        # Of some 150 settings those that say something of the network; others name folders.
        kept = {name: cfg[name] for name in SETTINGS}
        (folder / "config.json").write_text(json.dumps(kept, indent=1) + "\n")
        torch.save({"train_step": 5, "env_steps": 100, "best_performance": 0.0,
                    "model": model.state_dict(), "optimizer": {}, "curr_lr": 1e-4},
                   folder / "checkpoint_p0" / "checkpoint_5.pth")  # fmt: skip
        return "checkpoint_p0/checkpoint_5.pth"

    value = torch.zeros(0)

    def act(ports: dict[str, Any]) -> Any:
        nonlocal state, value
        from sample_factory.algo.utils.action_distributions import argmax_actions

        with torch.no_grad():
            given = {name: torch.from_numpy(each).float() for name, each in ports.items()}
            result = model(model.normalize_obs(given), state)
            value = result["values"].reshape(-1, 1).clone()
            model.returns_normalizer(value, denormalize=True)
            state = result["new_rnn_states"]
            actions = argmax_actions(model.action_distribution()).numpy()
        # Of several choices it puts those of all rows one behind the other.
        return actions.reshape(len(space), -1).T if isinstance(space, Several) else actions

    shapes = {name: each.shape for name, each in observed.items()}
    return Written(name=name, save=save, act=act, shapes=shapes, assume=assume, pixels=pixels,
                   recurrent=cfg.use_rnn, value=lambda: value.numpy())  # fmt: skip
