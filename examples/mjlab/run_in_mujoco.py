"""Runs the exported cartpole in MuJoCo alone: neither mjlab nor PyTorch is imported."""

from __future__ import annotations

import importlib.util
import sys

import mujoco
import numpy as np

import roadworthy as rw


def main() -> None:
    """Steps the policy at every tick from where mjlab's run began, and draws both if it can."""
    policy = rw.load("cartpole")
    model = mujoco.MjModel.from_binary_path("cartpole.mjb")
    data = mujoco.MjData(model)
    recorded = np.load("mjlab.npz")
    data.qpos[:], data.qvel[:] = np.split(recorded["began"], 2)
    angles = []
    for tick in range(len(recorded["angles"]) * policy.signature.decimation):
        got = policy.step(
            {
                "cartpole.joint_pos": data.qpos[None].astype(np.float32),
                "cartpole.joint_vel": data.qvel[None].astype(np.float32),
            }
        )
        data.ctrl[:] = got["cartpole.joint_effort_target"][0]
        mujoco.mj_step(model, data)
        if (tick + 1) % policy.signature.decimation == 0:
            angles.append(float(data.qpos[1]))
    apart = float(np.abs(np.cos(angles) - np.cos(recorded["angles"])).max())
    sys.stdout.write(f"MuJoCo: the pole ends at {np.cos(angles[-1]):+.3f} (1 is upright)\n")
    sys.stdout.write(f"at most {apart:.3f} apart; torch imported: {'torch' in sys.modules}\n")
    if importlib.util.find_spec("matplotlib"):
        draw(recorded["angles"], np.array(angles), policy.signature.period_s or 1.0)


def draw(mjlab: np.ndarray, alone: np.ndarray, tick_s: float) -> None:
    """Both runs in `cartpole.png`."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3), layout="constrained")
    times = np.arange(1, len(mjlab) + 1) * tick_s * 5
    axes.plot(times, np.cos(mjlab), label="mjlab, PyTorch", linewidth=3, alpha=0.5)
    axes.plot(times, np.cos(alone), label="MuJoCo, the file", linewidth=1)
    axes.set(xlabel="seconds", ylabel="cosine of the pole's angle")
    axes.legend()
    figure.savefig("cartpole.png", dpi=120)


if __name__ == "__main__":
    main()
