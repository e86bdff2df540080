"""An MLP with rsl_rl's normaliser in front and joint targets behind, exported and run."""

import tempfile

import numpy as np
import torch
from torch import nn

import roadworthy as rw

JOINTS = [
    f"{leg}_{joint}" for leg in ("FL", "FR", "RL", "RR") for joint in ("hip", "thigh", "calf")
]


def main() -> None:
    actor = nn.Sequential(nn.Linear(48, 128), nn.ELU(), nn.Linear(128, 12))
    default_pose = np.tile([0.0, 0.8, -1.5], 4)
    source = rw.Source(
        actor,
        example={"obs": torch.zeros(1, 48)},
        normalizer=rw.EpsOutsideRoot(mean=np.zeros(48), std=np.full(48, 1.3), eps=1e-2),
        action=[rw.ScaleOffset(scale=0.25, offset=default_pose), rw.Clip(low=-2.7, high=2.7)],
        about={"actions": rw.About(description="joint targets", unit="rad", elements=JOINTS)},
        period_s=0.02,
    )
    with tempfile.TemporaryDirectory() as folder:
        rw.export(source, f"{folder}/walker")
        policy = rw.load(f"{folder}/walker")
        print(policy.signature)
        targets = policy.act(np.zeros(48, dtype=np.float32))
        print({name: f"{rad:.3f}" for name, rad in zip(JOINTS, targets, strict=True)})


if __name__ == "__main__":
    main()
