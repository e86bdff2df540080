"""Episodes of CartPole with the policy compiled for this machine.

python rollout.py cartpole
"""

import sys

import gymnasium
import numpy as np

import roadworthy as rw


def main(folder: str) -> None:
    policy = rw.load(folder, engine="c")  # written again from policy.onnx: no trust is needed
    env = gymnasium.make("CartPole-v1")
    returns = []
    for episode in range(5):
        obs, _ = env.reset(seed=episode)
        policy.reset()
        total, over = 0.0, False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(int(policy.act(obs)))
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    print(f"mean return {np.mean(returns):.0f} over {len(returns)} episodes")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "cartpole")
