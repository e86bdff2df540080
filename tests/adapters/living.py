"""Agents, players and runners of frameworks, as a training script holds them."""

from __future__ import annotations

import contextlib
import copy
import io
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from gymnasium.spaces import Tuple as Several
from torch import nn

from tests.user_policies import rl_games, skrl

OBSERVED = Box(-np.inf, np.inf, (10,), np.float32)


class Walker:
    """As much of an environment of rsl_rl as a runner asks for."""

    num_envs, num_actions, max_episode_length, cfg, device = 3, 4, 100, None, "cpu"
    episode_length_buf = torch.zeros(3, dtype=torch.long)
    clip_actions = 0.05

    def get_observations(self) -> Any:
        from tensordict import TensorDict

        return TensorDict({"policy": torch.randn(3, 12), "command": torch.randn(3, 3)}, [3])


def rsl_rl_runner(**actor: Any) -> Any:
    from rsl_rl.runners import OnPolicyRunner

    model = {"hidden_dims": [16, 16], "activation": "elu", "obs_normalization": True}
    spread = {"class_name": "GaussianDistribution", "init_std": 1.0}
    settings = {
        "num_steps_per_env": 4, "save_interval": 1, "multi_gpu": None,
        "obs_groups": {"actor": ["policy", "command"], "critic": ["policy"]},
        "actor": {"class_name": "MLPModel", **model, "distribution_cfg": spread, **actor},
        "critic": {"class_name": "MLPModel", **model},
        "algorithm": {"class_name": "PPO", "rnd_cfg": None, "symmetry_cfg": None},
    }  # fmt: skip
    with contextlib.redirect_stdout(io.StringIO()):
        return OnPolicyRunner(Walker(), settings)


def skrl_agent(kind: str = "PPO", action_space: Any = None) -> Any:
    from skrl.agents.torch import ppo, sac, td3
    from skrl.resources.preprocessors.torch import RunningStandardScaler

    agents: dict[str, Any] = {"PPO": ppo.PPO, "SAC": sac.SAC, "TD3": td3.TD3}
    roles = {"PPO": ("policy",), "SAC": ("policy",), "TD3": ("policy", "target_policy")}[kind]
    known = skrl.spaces(action_space)
    agent = agents[kind](
        models={role: skrl_model(kind, known) for role in roles},
        observation_space=known["observation_space"],
        action_space=known["action_space"],
        device="cpu",
        cfg={
            "observation_preprocessor": RunningStandardScaler,
            "observation_preprocessor_kwargs": {"size": 10, "device": "cpu"},
        },
    )
    agent._observation_preprocessor(2.0 * torch.randn(256, 10) + 0.5, train=True)
    return agent


def skrl_model(kind: str, known: dict[str, Any]) -> nn.Module:
    from skrl.utils.model_instantiators import torch as instantiators

    of_space = {Discrete: "categorical", MultiDiscrete: "multicategorical"}
    made = (
        "deterministic" if kind == "TD3" else of_space.get(type(known["action_space"]), "gaussian")
    )
    model = getattr(instantiators, f"{made}_model")
    return skrl.initialised(model(**known, network=skrl.NETWORK, output="ACTIONS"))


def sb3_model(
    kind: str = "PPO", space: Any = OBSERVED, actions: Any = None, **settings: Any
) -> Any:
    import sb3_contrib
    import stable_baselines3

    algorithm = getattr(stable_baselines3, kind, None) or getattr(sb3_contrib, kind)
    known = {
        "Discrete": Discrete(4), "Box": Box(np.float32([-1, -2]), np.float32([1, 3])),
    }  # fmt: skip
    choosing = kind in ("DQN", "QRDQN", "MaskablePPO")
    acts = actions or known["Discrete" if choosing else "Box"]
    settings = copy.deepcopy(settings)  # the model writes into what it is given
    policy = settings.pop("policy", "MlpPolicy")
    return algorithm(policy, Room(space, acts), device="cpu", **settings)


class Room(gymnasium.Env[Any, Any]):
    """An environment of these spaces in which nothing happens."""

    def __init__(self, space: Any, actions: Any) -> None:
        self.observation_space, self.action_space = space, actions

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 0.0, False, False, {}


def vec_normalized(space: Any, actions: Any) -> Any:
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    env = VecNormalize(DummyVecEnv([lambda: Room(space, actions)]))
    env.reset()
    for _ in range(8):
        env.step(np.array([actions.sample()]))
    return env


def rl_games_player(kind: str = "continuous", **network: Any) -> Any:
    from rl_games.torch_runner import Runner

    spaces = {
        "continuous": Box(np.float32([-1, -2, 0]), np.float32([1, 2, 3])),
        "discrete": Discrete(4),
        "multi_discrete": Several([Discrete(3), Discrete(4)]),
        "sac": Box(-2.0, 2.0, (3,)),
    }
    described = rl_games.CONTINUOUS if kind == "continuous" else {}
    model = {"continuous": "continuous_a2c_logstd", "sac": "soft_actor_critic"}
    algorithm = {"continuous": "a2c_continuous", "sac": "sac"}.get(kind, "a2c_discrete")
    settings = {
        "seed": 0, "algo": {"name": algorithm},
        "model": {"name": model.get(kind, f"{kind}_a2c")},
        "network": {
            "name": model["sac"] if kind == "sac" else "actor_critic",
            "separate": False, "mlp": rl_games.MLP,
            "space": {"continuous" if kind == "sac" else kind: described},
            "log_std_bounds": [-5, 2], **network,
        },
        "config": {
            "env_name": "none", "normalize_input": True, "normalize_value": True,
            "env_info": {"observation_space": OBSERVED, "action_space": spaces[kind]},
            "reward_shaper": {}, "device_name": "cpu", "num_actors": 1,
        },
    }  # fmt: skip
    with contextlib.redirect_stdout(io.StringIO()):
        runner = Runner()
        runner.load({"params": settings})
        player = runner.create_player()
    statistics = player.model.running_mean_std
    statistics.running_mean += torch.linspace(-1, 1, 10)
    statistics.running_var *= 2.0
    return player
