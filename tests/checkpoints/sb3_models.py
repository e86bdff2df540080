"""Models of Stable-Baselines3 and sb3-contrib with really different settings, saved by the library.

None is trained: every weight and buffer is drawn anew, wide enough that activations bend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

MODELS: dict[str, Model] = {}


@dataclass(frozen=True)
class Model:
    """One checkpoint: the algorithm, its policy, the spaces, and the keywords of both."""

    algorithm: str
    policy: str
    observation: Callable[[], Any]
    action: Callable[[], Any]
    policy_kwargs: Mapping[str, Any] = field(default_factory=dict)
    keywords: Mapping[str, Any] = field(default_factory=dict)
    normalized: bool = False

    def make(self) -> Any:
        """The live model, its weights drawn anew."""
        import sb3_contrib
        import stable_baselines3

        own = {"buffer_size": 10} if self.algorithm in OFF_POLICY else {"n_steps": 8}
        if self.algorithm.endswith(("PPO", "TRPO")):
            own["batch_size"] = 8
        kind = getattr(stable_baselines3, self.algorithm, None) or getattr(
            sb3_contrib, self.algorithm
        )
        env = blank(self.observation(), self.action())
        model = kind(
            self.policy, env, device="cpu", policy_kwargs=dict(self.policy_kwargs),
            **own, **self.keywords,
        )  # fmt: skip
        redraw(model.policy)
        return model


OFF_POLICY = ("DQN", "SAC", "TD3", "DDPG", "TQC", "QRDQN", "CrossQ")


def redraw(policy: nn.Module, seed: int = 0) -> None:
    """Changes every weight and every statistic to numbers of a common size."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in policy.parameters():
            wide = value[0].numel() ** 0.5 if value.ndim > 1 else 4.0
            value.copy_(torch.randn(value.shape, generator=generator) * 1.2 / wide)
        for name, value in policy.named_buffers():
            if name.endswith("ra_mean"):
                value.copy_(torch.randn(value.shape, generator=generator))
            if name.endswith("ra_var"):
                value.copy_(torch.rand(value.shape, generator=generator) + 0.2)


def blank(observation: Any, action: Any) -> Any:
    """An environment that has these spaces, and nothing happens in it."""
    import gymnasium

    class Blank(gymnasium.Env):  # type: ignore[misc,type-arg]
        observation_space, action_space = observation, action

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            return self.observation_space.sample(), {}

        def step(self, action: Any) -> Any:
            return self.observation_space.sample(), 0.0, False, False, {}

        def action_masks(self) -> Any:
            return np.ones(8, bool)

    return Blank()


def box(*shape: int, low: float = -np.inf, high: float = np.inf) -> Any:
    from gymnasium.spaces import Box

    return Box(low, high, shape, dtype=np.float32)


def uneven() -> Any:
    from gymnasium.spaces import Box

    return Box(np.float32([-1, -0.1234567, 0]), np.float32([2, 0.7654321, 3e-5]))


def pixels(*shape: int) -> Any:
    from gymnasium.spaces import Box

    return Box(0, 255, shape, dtype=np.uint8)


def discrete(n: int = 4) -> Any:
    from gymnasium.spaces import Discrete

    return Discrete(n)


def several() -> Any:
    from gymnasium.spaces import MultiDiscrete

    return MultiDiscrete([3, 2, 5])


def binary() -> Any:
    from gymnasium.spaces import MultiBinary

    return MultiBinary(4)


def mixed() -> Any:
    from gymnasium.spaces import Box, Dict, Discrete

    return Dict(
        {
            "zeta": Box(-1, 1, (3,), np.float32),
            "camera": pixels(40, 40, 3),
            "gear": Discrete(5),
            "grid": Box(-5, 5, (2, 3), np.float32),
        }
    )


def vectors() -> Any:
    from gymnasium.spaces import Box, Dict

    return Dict({"joints": box(6), "goal": Box(-3, 3, (2,), np.float32)})


def _add(name: str, *args: Any, **keywords: Any) -> None:
    MODELS[name] = Model(*args, **keywords)


def six() -> Any:
    return box(6)


def torque() -> Any:
    return box(2, low=-1.5, high=1.0)


def frames() -> Any:
    return pixels(40, 44, 3)


ON, CNN, DICT = "MlpPolicy", "CnnPolicy", "MultiInputPolicy"
SMALL = {"net_arch": [24, 16]}

_add("ppo", "PPO", ON, six, torque)
_add(
    "ppo_relu_deep",
    "PPO",
    ON,
    six,
    torque,
    {"activation_fn": nn.ReLU, "net_arch": {"pi": [32, 16, 8], "vf": [20]}},
)
_add("ppo_elu_linear", "PPO", ON, six, uneven, {"activation_fn": nn.ELU, "net_arch": []})
_add("ppo_leaky", "PPO", ON, six, discrete, {"activation_fn": nn.LeakyReLU, "net_arch": [12]})
_add(
    "ppo_gelu_no_pi", "PPO", ON, six, discrete, {"activation_fn": nn.GELU, "net_arch": {"vf": [8]}}
)
_add("ppo_multi_discrete", "PPO", ON, six, several)
_add("ppo_multi_binary", "PPO", ON, six, binary)
_add("ppo_matrix", "PPO", ON, lambda: box(2, 3), lambda: box(2, 2, low=-1, high=1))
_add("ppo_discrete_obs", "PPO", ON, lambda: discrete(7), discrete)
_add("ppo_multi_discrete_obs", "PPO", ON, several, torque)
_add("ppo_multi_binary_obs", "PPO", ON, binary, discrete)
_add("ppo_gsde", "PPO", ON, six, torque, {"log_std_init": -1.0}, {"use_sde": True})
_add("ppo_gsde_squashed", "PPO", ON, six, uneven, {"squash_output": True}, {"use_sde": True})
_add("ppo_cnn", "PPO", CNN, frames, discrete)
_add(
    "ppo_cnn_own_critic",
    "PPO",
    CNN,
    frames,
    torque,
    {"share_features_extractor": False, "net_arch": [16]},
)
_add(
    "ppo_cnn_raw_pixels",
    "PPO",
    CNN,
    frames,
    discrete,
    {"normalize_images": False, "features_extractor_kwargs": {"features_dim": 32}},
)
_add("ppo_dict", "PPO", DICT, mixed, torque, {"activation_fn": nn.SiLU})
_add("ppo_normalized", "PPO", ON, six, torque, normalized=True)
_add("ppo_dict_normalized", "PPO", DICT, vectors, discrete, normalized=True)
_add("a2c", "A2C", ON, six, discrete, {"activation_fn": nn.ReLU})
_add("a2c_cnn", "A2C", CNN, frames, several)
_add("trpo", "TRPO", ON, six, torque, {"net_arch": [10]})
_add("dqn", "DQN", ON, six, discrete)
_add("dqn_cnn", "DQN", CNN, frames, discrete)
_add("dqn_dict", "DQN", DICT, vectors, discrete, {"activation_fn": nn.Tanh})
_add("qrdqn", "QRDQN", ON, six, discrete, {"n_quantiles": 11, **SMALL})
_add("qrdqn_cnn", "QRDQN", CNN, frames, discrete, {"n_quantiles": 7, "net_arch": [16]})
_add("sac", "SAC", ON, six, torque)
_add("sac_uneven", "SAC", ON, six, uneven, {"activation_fn": nn.ELU, **SMALL})
_add("sac_gsde", "SAC", ON, six, torque, {"clip_mean": 1.0, **SMALL}, {"use_sde": True})
_add("sac_gsde_unclipped", "SAC", ON, six, torque, {"clip_mean": 0.0}, {"use_sde": True})
_add("sac_dict", "SAC", DICT, mixed, torque, SMALL)
_add("sac_normalized", "SAC", ON, six, torque, SMALL, normalized=True)
_add("td3", "TD3", ON, six, uneven, {"net_arch": {"pi": [24, 16], "qf": [8]}})
_add("td3_cnn", "TD3", CNN, frames, torque, SMALL)
_add("ddpg", "DDPG", ON, six, torque, {"activation_fn": nn.Tanh, **SMALL})
_add("tqc", "TQC", ON, six, torque, {"n_quantiles": 5, **SMALL})
_add("tqc_dict", "TQC", DICT, vectors, uneven, SMALL)
_add("crossq", "CrossQ", ON, six, torque, SMALL)
_add(
    "crossq_relu6_eps",
    "CrossQ",
    ON,
    six,
    uneven,
    {"activation_fn": nn.ReLU6, "batch_norm_eps": 0.1, **SMALL},
)
_add("crossq_no_norm", "CrossQ", ON, six, torque, {"batch_norm": False, **SMALL})
_add("maskable", "MaskablePPO", ON, six, discrete)
_add("maskable_several", "MaskablePPO", ON, six, several, {"activation_fn": nn.Mish})
_add("maskable_binary", "MaskablePPO", ON, six, binary)
_add("maskable_dict", "MaskablePPO", DICT, vectors, several)
_add("recurrent", "RecurrentPPO", "MlpLstmPolicy", six, torque, {"lstm_hidden_size": 16})
_add(
    "recurrent_shared",
    "RecurrentPPO",
    "MlpLstmPolicy",
    six,
    discrete,
    {"lstm_hidden_size": 12, "shared_lstm": True, "enable_critic_lstm": False},
)
_add(
    "recurrent_no_critic",
    "RecurrentPPO",
    "MlpLstmPolicy",
    six,
    several,
    {"lstm_hidden_size": 12, "enable_critic_lstm": False, "n_lstm_layers": 2},
)
_add("recurrent_cnn", "RecurrentPPO", "CnnLstmPolicy", frames, discrete, {"lstm_hidden_size": 8})
_add(
    "recurrent_dict",
    "RecurrentPPO",
    "MultiInputLstmPolicy",
    vectors,
    torque,
    {"lstm_hidden_size": 8, "activation_fn": nn.ReLU},
)
_add("recurrent_normalized", "RecurrentPPO", "MlpLstmPolicy", six, torque,
     {"lstm_hidden_size": 8}, normalized=True)  # fmt: skip

RECURRENT = [name for name, each in MODELS.items() if each.algorithm == "RecurrentPPO"]


def normalizer(model: Any, observation: Any) -> Any:
    """A VecNormalize with statistics that are not the first ones."""
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    made = VecNormalize(DummyVecEnv([lambda: blank(observation, model.action_space)]), clip_obs=3.0)
    rng = np.random.default_rng(1)
    each = made.obs_rms.values() if isinstance(made.obs_rms, dict) else [made.obs_rms]
    for statistics in each:
        statistics.mean = rng.normal(0.5, 1.0, statistics.mean.shape)
        statistics.var = rng.uniform(0.05, 4.0, statistics.var.shape)
    made.training = False
    return made


def saved(name: str, folder: Path) -> tuple[Any, Any, Path]:
    """The live model, its VecNormalize where it has one, and the file."""
    torch.manual_seed(0)
    case = MODELS[name]
    model = case.make()
    path = folder / f"{name}.zip"
    model.save(path)
    statistics = normalizer(model, case.observation()) if case.normalized else None
    if statistics is not None:
        statistics.save(str(folder / "vecnormalize.pkl"))
    return model, statistics, path
