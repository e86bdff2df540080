"""The dialect of IsaacLab, beside stand-ins that have its documented interface."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import roadworthy as rw
from tests.adapters.managers.isaac import ManagerBasedRLEnv


@pytest.mark.parametrize("history", [0, 3])
def test_a_manager_based_environment_gives_what_it_gives(history: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    env = ManagerBasedRLEnv(history)
    actor = torch.nn.Linear(2 * max(history, 1) + 2, 2)
    with pytest.warns(rw.RoadworthyWarning, match="experimental"):
        bundle = rw.export_environment(env, actor, tmp_path / "out")
    signature = bundle.signature
    assert [port.name for port in signature.inputs] == ["robot.joint_pos"]
    target = next(port for port in signature.outputs if port.name == "robot.joint_pos_target")
    assert target.about.elements == ("hip", "toe")
    expected = {"last_action", "processed_actions"}
    if history:
        expected |= {"history.policy.joint_pos", "history.policy.joint_pos.pushes"}
    assert {memory.name for memory in signature.memory} == expected
    assert signature.decimation == 4
    policy = rw.load(tmp_path / "out")
    seen, _ = env.reset()
    policy.reset()
    for _ in range(40):
        start = env.robot.data.joint_pos.numpy().copy()
        with torch.no_grad():
            action = actor(seen["policy"])
        got = policy.step({"robot.joint_pos": start})
        assert np.abs(got["actions"] - action.numpy()).max() < 1e-6
        for _ in range(3):
            policy.step({"robot.joint_pos": start})
        seen, _, ended, *_ = env.step(action)
        if bool(ended.any()):
            policy.reset()


def test_noise_is_refused(tmp_path: Path) -> None:
    env = ManagerBasedRLEnv()
    env.observation_manager.cfg.policy.enable_corruption = True
    with (
        pytest.warns(rw.RoadworthyWarning, match="experimental"),
        pytest.raises(rw.ExportError, match=r"RW187.*enable_corruption"),
    ):
        rw.export_environment(env, torch.nn.Linear(4, 2), tmp_path / "out")
