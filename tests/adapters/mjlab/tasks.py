"""Environments of mjlab for the tests: quiet, small, with an actor that was not trained."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import mjlab.tasks  # noqa: F401  # registers the tasks
import numpy as np
import torch
from mjlab.envs import ManagerBasedRlEnv
from mjlab.tasks.registry import load_env_cfg, load_rl_cfg

from roadworthy.frameworks.mjlab.tasks import _model

CARTPOLE, GO1 = "Mjlab-Cartpole-Balance", "Mjlab-Velocity-Flat-Unitree-Go1"


def made(
    task: str,
    change: Callable[[Any], None] = lambda cfg: None,
    *,
    play: bool = True,
    count: int = 1,
) -> ManagerBasedRlEnv:
    cfg = load_env_cfg(task, play=play)
    cfg.scene.num_envs, cfg.seed = count, 3
    change(cfg)
    with contextlib.redirect_stdout(io.StringIO()):
        env = ManagerBasedRlEnv(cfg, device="cpu")
        env.reset()
    return env


def actor(env: ManagerBasedRlEnv, task: str) -> torch.nn.Module:
    """The task's own actor, with weights of its own and a normaliser that does something."""
    torch.manual_seed(0)
    model = _model(env, asdict(load_rl_cfg(task)))
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            if name.endswith("mean"):
                buffer += 0.1 * torch.randn_like(buffer)
            elif name.endswith(("std", "var")):
                buffer *= 1.3
    return model.eval()


def short_episodes(cfg: Any) -> None:
    """Episodes that end by themselves, so that the environment is reset inside of its step."""
    cfg.episode_length_s = 37 * cfg.decimation * cfg.sim.mujoco.timestep


def history(cfg: Any) -> None:
    short_episodes(cfg)
    cfg.observations["actor"].history_length = 4


def delayed(cfg: Any) -> None:
    short_episodes(cfg)
    for term in list(cfg.observations["actor"].terms.values())[:2]:
        term.delay_min_lag = term.delay_max_lag = 2


def still_motion(path: Path, env: ManagerBasedRlEnv, frames: int = 60) -> Path:
    """A motion in which the robot stands as it does at its start."""
    robot = env.scene["robot"]
    joints, bodies = robot.num_joints, robot.num_bodies
    rest = robot.data.default_joint_pos[0].numpy()
    sway = 0.02 * np.sin(np.linspace(0, 6, frames))[:, None]
    place = robot.data.body_link_pos_w[0].numpy()
    turn = robot.data.body_link_quat_w[0].numpy()
    np.savez(
        path,
        fps=np.array([50]),
        joint_pos=(rest + sway).astype(np.float32),
        joint_vel=np.zeros((frames, joints), np.float32),
        body_pos_w=np.repeat(place[None], frames, 0).astype(np.float32),
        body_quat_w=np.repeat(turn[None], frames, 0).astype(np.float32),
        body_lin_vel_w=np.zeros((frames, bodies, 3), np.float32),
        body_ang_vel_w=np.zeros((frames, bodies, 3), np.float32),
    )
    return path
