"""Stable-Baselines3 and sb3-contrib: `model.policy`, asked as `model.predict` asks it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tests.user_policies.cases import Family, carrying

people = Family("SB3", framework=True)

PREDICT = {"method": "_predict", "constants": {"deterministic": True}}
STATE = {"observation": torch.zeros(1, 6)}
FRAMES = {
    "observation": torch.tensor([0, 255], dtype=torch.uint8)[:, None, None, None].expand(
        2, 3, 36, 36
    )
}
MIXED = {"joints": torch.zeros(1, 6), "goal": torch.zeros(1, 3)}


def box(*shape: int, low: float = -2.0, high: float = 1.0) -> Any:
    from gymnasium.spaces import Box

    return Box(low, high, shape, dtype=np.float32)


def pixels() -> Any:
    from gymnasium.spaces import Box

    return Box(0, 255, (3, 36, 36), dtype=np.uint8)


def discrete(number: int = 4) -> Any:
    from gymnasium.spaces import Discrete

    return Discrete(number)


def mixed() -> Any:
    from gymnasium.spaces import Dict

    return Dict({"joints": box(6, high=np.inf, low=-np.inf), "goal": box(3)})


def rate(_: float) -> float:
    return 3e-4


def actor_critic(space: Any, actions: Any, **settings: Any) -> nn.Module:
    from stable_baselines3.common.policies import ActorCriticPolicy

    return ActorCriticPolicy(space, actions, rate, net_arch=[32, 32], **settings)


@people.case(STATE, **PREDICT)
def ppo_gaussian() -> nn.Module:
    return actor_critic(box(6), box(2))


@people.case(STATE, **PREDICT)
def ppo_categorical() -> nn.Module:
    return actor_critic(box(6), discrete())


@people.case(STATE, **PREDICT)
def a2c_multi_discrete() -> nn.Module:
    from gymnasium.spaces import MultiDiscrete

    return actor_critic(box(6), MultiDiscrete([3, 4]))


@people.case(STATE, **PREDICT)
def a2c_multi_binary() -> nn.Module:
    from gymnasium.spaces import MultiBinary

    return actor_critic(box(6), MultiBinary(3))


@people.case(STATE, **PREDICT)
def ppo_gsde() -> nn.Module:
    return actor_critic(box(6), box(2), use_sde=True)


@people.case(STATE, **PREDICT)
def ppo_gsde_squashed() -> nn.Module:
    return actor_critic(box(6), box(2), use_sde=True, squash_output=True)


@people.case({"observation": torch.tensor([0, 4])}, **PREDICT)
def ppo_of_a_table() -> nn.Module:
    return actor_critic(discrete(5), discrete(3))


@people.case(FRAMES, **PREDICT)
def ppo_pixels() -> nn.Module:
    from stable_baselines3.common.policies import ActorCriticCnnPolicy

    return ActorCriticCnnPolicy(pixels(), discrete(), rate)


@people.case({"observation": MIXED}, **PREDICT)
def ppo_dict() -> nn.Module:
    from stable_baselines3.common.policies import MultiInputActorCriticPolicy

    return MultiInputActorCriticPolicy(mixed(), box(2), rate)


@people.case(STATE, **PREDICT)
def ppo_own_features() -> nn.Module:
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    class Windows(BaseFeaturesExtractor):
        def __init__(self, space: Any) -> None:
            super().__init__(space, 8)
            self.net = nn.Sequential(nn.Conv1d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(8))
            self.net(torch.zeros(1, 1, 6))

        def forward(self, observations: Tensor) -> Tensor:
            features: Tensor = self.net(observations.unsqueeze(1))
            return features

    return actor_critic(
        box(6), box(2), features_extractor_class=Windows, share_features_extractor=False
    )


# `forward` draws, and returns values and log probabilities besides.
@people.case(
    {"obs": torch.zeros(1, 6)}, constants={"deterministic": True}, outputs=("actions", None, None)
)
def ppo_forward() -> nn.Module:
    return actor_critic(box(6), box(2))


@people.case(STATE, **PREDICT)
def dqn() -> nn.Module:
    from stable_baselines3.dqn.policies import DQNPolicy

    return DQNPolicy(box(6), discrete(), rate)


@people.case(FRAMES, **PREDICT)
def dqn_pixels() -> nn.Module:
    from stable_baselines3.dqn.policies import CnnPolicy

    return CnnPolicy(pixels(), discrete(), rate)


@people.case(STATE, **PREDICT)
def sac() -> nn.Module:
    from stable_baselines3.sac.policies import SACPolicy

    return SACPolicy(box(6), box(2), rate, net_arch=[32, 32])


@people.case(STATE, **PREDICT)
def sac_gsde() -> nn.Module:
    from stable_baselines3.sac.policies import SACPolicy

    return SACPolicy(box(6), box(2), rate, net_arch=[32, 32], use_sde=True)


# Only the actor, as many do.
@people.case({"obs": torch.zeros(1, 6)}, constants={"deterministic": True})
def sac_actor() -> nn.Module:
    from stable_baselines3.sac.policies import SACPolicy

    return SACPolicy(box(6), box(2), rate, net_arch=[32, 32]).actor


@people.case(STATE, **PREDICT)
def td3() -> nn.Module:
    from stable_baselines3.td3.policies import TD3Policy

    return TD3Policy(box(6), box(2), rate, net_arch=[32, 32])


@people.case({"observation": MIXED}, **PREDICT)
def td3_dict() -> nn.Module:
    from stable_baselines3.td3.policies import MultiInputPolicy

    return MultiInputPolicy(mixed(), box(2), rate, net_arch=[32, 32])


@people.case(STATE, **PREDICT)
def qr_dqn() -> nn.Module:
    from sb3_contrib.qrdqn.policies import QRDQNPolicy

    return QRDQNPolicy(box(6), discrete(), rate, n_quantiles=10, net_arch=[32])


@people.case(STATE, **PREDICT)
def tqc() -> nn.Module:
    from sb3_contrib.tqc.policies import TQCPolicy

    return TQCPolicy(box(6), box(2), rate, net_arch=[32, 32])


@people.case(STATE, **PREDICT)
def cross_q() -> nn.Module:
    from sb3_contrib.crossq.policies import CrossQPolicy

    return CrossQPolicy(box(6), box(2), rate, net_arch=[32, 32])


@people.case(STATE, method="_predict", constants={"deterministic": True})
def ars() -> nn.Module:
    from sb3_contrib.ars.policies import ARSPolicy

    return ARSPolicy(box(6), box(2), net_arch=[16])


def allowed_only(policy: Any, observation: Tensor, action_masks: Tensor) -> Tensor:
    """Asked with the mask of what is allowed now, as MaskablePPO.predict does."""
    action: Tensor = policy._predict(observation, deterministic=True, action_masks=action_masks)
    return action


def maskable_policy() -> nn.Module:
    from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy

    return MaskableActorCriticPolicy(box(6), discrete(), rate, net_arch=[32])


@people.case(STATE, **PREDICT)
def maskable() -> nn.Module:
    return maskable_policy()


@people.case({**STATE, "action_masks": torch.ones(1, 4, dtype=torch.bool)}, method=allowed_only)
def maskable_with_its_mask() -> nn.Module:
    return maskable_policy()


ZEROS = torch.zeros(1, 1, 16)


def recurrent_policy() -> nn.Module:
    from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy

    return RecurrentActorCriticPolicy(box(6), box(2), rate, lstm_hidden_size=16, net_arch=[16])


def whole(policy: Any, observation: Tensor, lstm_states: tuple[Tensor, Tensor]) -> Any:
    starts = torch.zeros(observation.shape[0])
    return policy._predict(observation, lstm_states, starts, deterministic=True)


def by_parts(policy: Any, observation: Tensor, lstm_states: tuple[Tensor, Tensor]) -> Any:
    """The same without the branch on `episode_starts`, which a runtime's reset makes needless."""
    features = policy.extract_features(observation, policy.pi_features_extractor)
    latent, lstm_states = policy.lstm_actor(features.unsqueeze(0), lstm_states)
    latent = policy.mlp_extractor.forward_actor(latent.squeeze(0))
    return policy.action_net(latent), lstm_states


# It branches on whether an episode starts in any row: refused with the line.
@people.case(STATE, method=whole, memory={"lstm_states": (ZEROS, ZEROS)}, refused="RW103")
def recurrent_ppo() -> nn.Module:
    return recurrent_policy()


def whole_step(policy: nn.Module, given: Any, state: Any) -> Any:
    return whole(policy, given["observation"], state)


@people.case(
    STATE,
    method=by_parts,
    memory={"lstm_states": (ZEROS, ZEROS)},
    live=carrying(whole_step, lambda: (ZEROS, ZEROS)),
)
def recurrent_ppo_by_parts() -> nn.Module:
    return recurrent_policy()
