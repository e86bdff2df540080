"""Trains mjlab's cartpole to swing up, as `actor.pt` beside this file was: 200 iterations, CPU."""

from __future__ import annotations

import sys
from dataclasses import asdict

import mjlab.tasks  # noqa: F401  # registers the tasks
import torch
from mjlab.envs import ManagerBasedRlEnv
from mjlab.rl import MjlabOnPolicyRunner, RslRlVecEnvWrapper
from mjlab.tasks.registry import load_env_cfg, load_rl_cfg

TASK = "Mjlab-Cartpole-Swingup"


def main(iterations: int = 200) -> None:
    """Writes `model.pt`, a checkpoint of rsl_rl; six minutes of one core."""
    torch.manual_seed(1)
    cfg, rl_cfg = load_env_cfg(TASK), load_rl_cfg(TASK)
    cfg.scene.num_envs, cfg.seed, rl_cfg.upload_model = 128, 1, False
    env = RslRlVecEnvWrapper(ManagerBasedRlEnv(cfg, device="cpu"), rl_cfg.clip_actions)
    runner = MjlabOnPolicyRunner(env, asdict(rl_cfg), None, "cpu")
    runner.learn(iterations)
    runner.save("model.pt")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
