"""Checkpoints of rl_games: models as its agents build and save them, asked by its players."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from gymnasium.spaces import Tuple as Several

from tests.checkpoints.recording import Written

OBSERVED = Box(-np.inf, np.inf, (10,), np.float32)
PIXELS = Box(0, 255, (18, 14, 3), np.uint8)
MOVES = Box(np.float32([-1, -2, 0]), np.float32([1, 2, 3]))
BOUNDS = {"action_low": "-1,-2,0", "action_high": "1,2,3"}
CONTINUOUS = {
    "mu_activation": "None", "sigma_activation": "None", "mu_init": {"name": "default"},
    "sigma_init": {"name": "const_initializer", "val": 0}, "fixed_sigma": True,
}  # fmt: skip
RESCALED = {"clip_actions": "true", "mu_activation": "identity", **BOUNDS}


def cases(version: str) -> Iterator[Written]:
    """Checkpoints of the installed version, which must be this one."""
    yield player("continuous", assume=RESCALED)
    yield player("plain", clip_actions=False, activation="relu",
                 assume={"clip_actions": "false", "mu_activation": "identity"})  # fmt: skip
    yield player("tanh", space={"continuous": {**CONTINUOUS, "mu_activation": "tanh"}},
                 activation="tanh", assume={**RESCALED, "mu_activation": "tanh"})  # fmt: skip
    yield player("separate", separate=True, normalize_input=False, assume=RESCALED)
    yield player("own-sigma", space={"continuous": {**CONTINUOUS, "fixed_sigma": False}},
                 activation="selu", assume=RESCALED)  # fmt: skip
    yield player("compiled", prefix="_orig_mod.", assume=RESCALED)
    yield player("discrete", actions=Discrete(4), space={"discrete": {}}, assume={})
    yield player("multi-discrete", actions=Several([Discrete(3), Discrete(4)]),
                 space={"multi_discrete": {}}, activation="gelu", assume={})  # fmt: skip
    lstm = {"name": "lstm", "units": 8, "layers": 1}
    gru = {"name": "gru", "units": 8, "layers": 2}
    yield player("lstm-before", rnn={**lstm, "before_mlp": True, "layer_norm": True},
                 assume=RESCALED)  # fmt: skip
    yield player("lstm-after", rnn={**lstm, "concat_input": True}, assume=RESCALED)
    yield player("gru-after", rnn={**gru, "concat_output": True, "layer_norm": True},
                 assume=RESCALED)  # fmt: skip
    yield player("gru-separate", rnn={**gru, "before_mlp": True, "concat_output": True},
                 separate=True, assume=RESCALED)  # fmt: skip
    camera = {"type": "conv2d", "activation": "elu", "initializer": {"name": "default"},
              "convs": [{"filters": 6, "kernel_size": 4, "strides": 2, "padding": 0},
                        {"filters": 8, "kernel_size": 3, "strides": 1, "padding": 1}]}  # fmt: skip
    seen = {"strides": "2,1", "padding": "0,1", "cnn_activation": "elu", "divisor": "255"}
    yield player("cnn", cnn=camera, observed=PIXELS, actions=Discrete(4), space={"discrete": {}},
                 activation="relu", assume=seen)  # fmt: skip
    yield player("cnn-plain", cnn={**camera, "permute_input": False}, normalize_input=False,
                 observed=Box(-1.0, 1.0, (3, 18, 14), np.float32), separate=True,
                 assume={**seen, **RESCALED, "divisor": "1", "image": "3,18,14"})  # fmt: skip
    yield player("cnn-lstm", cnn={**camera, "activation": "relu"}, observed=PIXELS,
                 rnn={**lstm, "concat_output": True}, separate=True, normalization="batch_norm",
                 assume={**seen, **RESCALED, "cnn_activation": "relu"})  # fmt: skip
    yield player("sac", kind="sac", actions=Box(-2.0, 0.5, (3,)), activation="relu",
                 assume={"action_low": "-2", "action_high": "0.5"})  # fmt: skip


def player(
    name: str,
    *,
    kind: str = "a2c",
    actions: Any = MOVES,
    space: Any = None,
    activation: str = "elu",
    assume: dict[str, object],
    prefix: str = "",
    clip_actions: bool = True,
    normalize_input: bool = True,
    observed: Any = OBSERVED,
    **network: Any,
) -> Written:
    space = space or {"continuous": CONTINUOUS}
    mlp = {"units": [16, 12], "activation": activation, "initializer": {"name": "default"}}
    model = {"continuous": "continuous_a2c_logstd"}.get(
        next(iter(space)), f"{next(iter(space))}_a2c"
    )
    algorithm = "a2c_continuous" if "continuous" in space else "a2c_discrete"
    settings = {
        "seed": 0, "algo": {"name": "sac" if kind == "sac" else algorithm},
        "model": {"name": "soft_actor_critic" if kind == "sac" else model},
        "network": {
            "name": "soft_actor_critic" if kind == "sac" else "actor_critic", "separate": False,
            "mlp": mlp, "space": space, "log_std_bounds": [-5, 2], **network,
        },
        "config": {
            "env_name": "none", "normalize_input": normalize_input, "normalize_value": True,
            "env_info": {"observation_space": observed, "action_space": actions},
            "reward_shaper": {}, "device_name": "cpu", "num_actors": 1,
            "clip_actions": clip_actions,
        },
    }  # fmt: skip
    threads = torch.get_num_threads()
    with contextlib.redirect_stdout(io.StringIO()):
        from rl_games.torch_runner import Runner

        runner = Runner()
        runner.load({"params": settings})
        made = runner.create_player()
    torch.set_num_threads(threads)  # a Runner takes four, which wait for each other
    with torch.no_grad():
        for value in made.model.parameters():
            value.add_(0.1 * torch.randn_like(value))
    kept = ("running_mean_std",) * normalize_input + ("value_mean_std",) * (kind != "sac")
    for each in kept:
        statistics = getattr(made.model, each)
        shape = (1,) if each.startswith("value") else observed.shape
        statistics.train()
        statistics(1.5 * torch.randn(256, *shape) + 0.3)
        statistics.eval()
    answered: dict[str, Any] = {}
    if kind != "sac":
        made.model.register_forward_hook(lambda _, __, result: answered.update(result))

    def act(ports: dict[str, Any]) -> Any:
        with torch.no_grad():
            return made.get_action(torch.from_numpy(ports["obs"]), is_deterministic=True).numpy()

    made.has_batch_dimension, made.batch_size = True, 5
    made.reset()
    return Written(
        name=name,
        save=saving(made, kind, prefix),
        act=act,
        shapes={"obs": observed.shape},
        pixels=("obs",) if observed.dtype == np.uint8 else (),
        value=None if kind == "sac" else lambda: answered["values"].numpy(),
        assume={"activation": activation, **assume},
        recurrent="rnn" in network,
    )


def saving(made: Any, kind: str, prefix: str) -> Any:
    """As `A2CBase.save` and `SACAgent.save` do it: torch.save of the full state."""

    def save(folder: Path) -> str:
        from rl_games.algos_torch.torch_ext import save_checkpoint

        state: dict[str, Any] = {"epoch": 3, "frame": 100, "last_mean_rewards": 1.0}
        if kind == "sac":
            # A player has no critics; their weights would be here.
            state |= {"actor": made.model.sac_network.actor.state_dict()}
            state |= {"critic": {}, "critic_target": {}}
            state["running_mean_std"] = made.model.running_mean_std.state_dict()
        else:
            state["model"] = {f"{prefix}{n}": v for n, v in made.model.state_dict().items()}
        with contextlib.redirect_stdout(io.StringIO()):
            save_checkpoint(str(folder / "last"), state)
        return "last.pth"

    return save
