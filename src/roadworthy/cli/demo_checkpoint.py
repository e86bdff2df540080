"""The second act of `roadworthy demo`: a file of Stable-Baselines3 goes in, and plays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import roadworthy.demo
from roadworthy.runtime.load import load

FILE = "ppo_cartpole.zip"
FIRST_SEED = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointAct:
    """What became of the checkpoint."""

    file: str
    wrote: str
    architecture: str
    folder: str
    passed: bool
    returns: list[float]

    def show(self, console: Any) -> None:
        """Prints it in three lines."""
        mean = f"{np.mean(self.returns):.1f}"
        proof = "certified" if self.passed else "NOT certified"
        console.print("")
        console.print(f"{self.file}: {self.wrote}, {self.architecture}", markup=False)
        console.print(
            f"  read without Stable-Baselines3, {proof}; mean return {mean} in {len(self.returns)} "
            "episodes of CartPole-v1",
            markup=False, soft_wrap=True,
        )  # fmt: skip
        next_step = f"  roadworthy inspect {self.folder}"
        console.print(next_step, style="dim", markup=False)


def checkpoint_act(folder: Path, episodes: int, progress: Any) -> CheckpointAct:
    """Exports the checkpoint that comes with the package, and plays the bundle."""
    import gymnasium

    from roadworthy.api.export import export
    from roadworthy.spec.bundle import CERTIFICATE
    from roadworthy.spec.certificate import Certificate

    progress("reading a checkpoint of Stable-Baselines3")
    bundle = export(
        Path(roadworthy.demo.__file__).parent / FILE,
        folder,
        assume={"vecnormalize": "none"},
        progress=progress,
    )
    progress("playing the checkpoint")
    policy = load(folder)
    env: Any = gymnasium.make("CartPole-v1")
    returns = []
    for seed in range(FIRST_SEED, FIRST_SEED + episodes):
        obs, _ = env.reset(seed=seed)
        policy.reset()
        total, done = 0.0, False
        while not done:
            obs, reward, terminated, truncated, _ = env.step(int(policy.act(obs)))
            total, done = total + float(reward), terminated or truncated
        returns.append(total)
    env.close()
    origin = bundle.manifest["recipe"]["checkpoint"]
    return CheckpointAct(
        file=FILE,
        wrote=f"{origin['framework']} {origin['version']}, {origin['algorithm']}",
        architecture=origin["architecture"],
        folder=str(folder),
        passed=Certificate.from_bytes(bundle.files[CERTIFICATE]).passed,
        returns=returns,
    )
