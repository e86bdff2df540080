"""CartPole-v1 with the velocities hidden, so that balancing needs memory."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

ENV_ID = "CartPoleHiddenVelocity-v0"

# CartPole's own state is (position_m, velocity_m_s, angle_rad, angular_velocity_rad_s).
VISIBLE = [0, 2]

Observation = NDArray[np.float32]


class HiddenVelocity(gym.ObservationWrapper[Observation, Any, Observation], RecordConstructorArgs):
    """CartPole seen as float32 `(position_m, angle_rad)`."""

    def __init__(self, env: gym.Env[Observation, Any]) -> None:
        # Gymnasium rebuilds a wrapper from its spec only when it recorded its arguments.
        RecordConstructorArgs.__init__(self)
        super().__init__(env)
        full = env.observation_space
        assert isinstance(full, gym.spaces.Box)
        self.observation_space = gym.spaces.Box(
            full.low[VISIBLE], full.high[VISIBLE], dtype=np.float32
        )

    def observation(self, observation: Observation) -> Observation:
        """The cart position and the pole angle of a full CartPole state."""
        return observation[VISIBLE].astype(np.float32)


def make_env() -> gym.Env[Observation, Any]:
    """A fresh CartPole with hidden velocities and a 500-step limit."""
    return gym.make(ENV_ID)


if ENV_ID not in gym.registry:
    gym.register(
        id=ENV_ID,
        entry_point="gymnasium.envs.classic_control:CartPoleEnv",
        max_episode_steps=500,
        reward_threshold=475.0,
        additional_wrappers=(HiddenVelocity.wrapper_spec(),),
    )
