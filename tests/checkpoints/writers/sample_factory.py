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
    "obs_scale",
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


def learner(name: str, space: Any, assume: dict[str, object], **settings: Any) -> Written:
    from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
    from sample_factory.model.actor_critic import create_actor_critic
    from sample_factory.model.model_utils import get_rnn_size
    from sample_factory.utils.attr_dict import AttrDict

    parser, _ = parse_sf_args(["--env=none", "--algo=APPO", "--experiment=x"])
    cfg = AttrDict(vars(parse_full_cfg(parser, ["--env=none", "--algo=APPO", "--experiment=x"])))
    sizes = {"encoder_mlp_layers": [16, 12], "decoder_mlp_layers": [8], "rnn_size": 8}
    cfg.update({**sizes, **settings})
    observed = Dict({"obs": Box(-np.inf, np.inf, (10,), np.float32)})
    model = create_actor_critic(cfg, observed, space)
    if cfg.normalize_input:
        model.train()
        model.normalize_obs({"obs": 1.5 * torch.randn(256, 10) + 0.3})
    model.eval()
    with torch.no_grad():
        for value in model.parameters():
            value.add_(0.1 * torch.randn_like(value))
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

    def act(ports: dict[str, Any]) -> Any:
        nonlocal state
        from sample_factory.algo.utils.action_distributions import argmax_actions

        with torch.no_grad():
            seen = model.normalize_obs({"obs": torch.from_numpy(ports["obs"])})
            result = model(seen, state)
            state = result["new_rnn_states"]
            actions = argmax_actions(model.action_distribution()).numpy()
        # Of several choices it puts those of all rows one behind the other.
        return actions.reshape(len(space), -1).T if isinstance(space, Several) else actions

    return Written(name=name, save=save, act=act, shapes={"obs": (10,)}, assume=assume,
                   recurrent=cfg.use_rnn)  # fmt: skip
