"""Exports the cartpole with its policy, and lets mjlab run it once, to be compared with."""

from __future__ import annotations

import sys
from pathlib import Path

import mujoco
import numpy as np
import torch

import roadworthy as rw
from roadworthy.frameworks.mjlab.tasks import actor_of, environment_of

TASK = "Mjlab-Cartpole-Swingup"
HERE = Path(__file__).parent


def main(checkpoint: str, steps: int = 200) -> None:
    """Writes `cartpole/`, the simulator's model, and what mjlab's own step made of it."""
    env = environment_of(TASK)
    bundle = rw.export_environment(env, checkpoint, "cartpole", task=TASK, progress=False)
    sys.stdout.write(f"{bundle.signature}\n")
    # The very model that was trained in, so that MuJoCo needs nothing of mjlab.
    mujoco.mj_saveModel(env.sim.mj_model, "cartpole.mjb", None)
    actor, _ = actor_of(env, Path(checkpoint), TASK)
    obs, _ = env.reset()
    joints = env.scene["cartpole"].data
    began = np.concatenate([joints.joint_pos[0].numpy(), joints.joint_vel[0].numpy()])
    angles = []
    with torch.inference_mode():
        for _ in range(steps):
            obs, *_ = env.step(actor(obs))
            angles.append(float(joints.joint_pos[0, 1]))
    np.savez("mjlab.npz", began=began, angles=np.array(angles))
    sys.stdout.write(f"mjlab:  the pole ends at {np.cos(angles[-1]):+.3f} (1 is upright)\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(HERE / "actor.pt"))
