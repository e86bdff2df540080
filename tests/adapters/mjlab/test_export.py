"""mjlab's environments go in as they are, and come back as they were."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import warp

import roadworthy as rw
from roadworthy.capture.snapshot import mutable
from tests.adapters.mjlab.living import compare
from tests.adapters.mjlab.tasks import CARTPOLE, GO1, actor, delayed, history, made, short_episodes

TOLERANCE = 1e-5


def digest(env: Any) -> str:
    """A hash over every array of the environment, warp's included, and every number."""
    found = hashlib.sha256()
    for each in mutable([env]):
        if isinstance(each, torch.Tensor):
            found.update(each.numpy().tobytes())
        elif isinstance(each, (np.ndarray, warp.array)):
            found.update(np.asarray(each).tobytes())
        elif hasattr(each, "__dict__"):
            numbers = {k: v for k, v in vars(each).items() if isinstance(v, (bool, int, float))}
            found.update(repr(sorted(numbers.items())).encode())
    return found.hexdigest()


@pytest.mark.parametrize("change", [short_episodes, history, delayed])
def test_a_cartpole_gives_what_mjlab_gives_over_300_steps_with_resets(
    change: Callable[[Any], None], tmp_path: Path
) -> None:
    env = made(CARTPOLE, change)
    model = actor(env, CARTPOLE)
    rw.export_environment(env, model, tmp_path / "out", progress=False)
    found = compare(env, model, tmp_path / "out", 300)
    assert found.worst <= TOLERANCE
    assert found.resets >= 5


def test_an_environment_is_handed_back_bit_for_bit(tmp_path: Path) -> None:
    env = made(CARTPOLE, history)
    model = actor(env, CARTPOLE)
    for _ in range(3):
        env.step(torch.ones(1, 1))
    before, random = digest(env), torch.get_rng_state()
    rw.export_environment(env, model, tmp_path / "out", progress=False)
    assert digest(env) == before
    assert torch.equal(torch.get_rng_state(), random)
    env.step(torch.ones(1, 1))
    assert digest(env) != before


def test_ports_have_the_names_of_the_robot(tmp_path: Path) -> None:
    env = made(CARTPOLE, history)
    model = actor(env, CARTPOLE)
    bundle = rw.export_environment(env, model, tmp_path / "out", progress=False)
    signature = bundle.signature
    assert [port.name for port in signature.inputs] == ["cartpole.joint_pos", "cartpole.joint_vel"]
    assert signature.inputs[0].about.elements == ("slider", "hinge_1")
    target = next(p for p in signature.outputs if p.name == "cartpole.joint_effort_target")
    assert target.about.elements == ("slider",)
    assert target.shape == (1, 1)
    memory = {each.name: each.shape for each in signature.memory}
    assert memory["history.actor.cart_pos"] == (1, 4, 1)
    assert memory["history.actor.cart_pos.pushes"] == (1,)
    assert signature.period_s == pytest.approx(0.01)
    assert signature.decimation == 5


def test_go1_gives_what_mjlab_gives(tmp_path: Path) -> None:
    env = made(GO1, short_episodes)
    model = actor(env, GO1)
    bundle = rw.export_environment(env, model, tmp_path / "out", progress=False)
    names = {port.name for port in bundle.signature.inputs}
    assert names == {
        "robot.joint_pos", "robot.joint_vel", "robot.root_quat", "sensor.robot.imu_lin_vel",
        "sensor.robot.imu_ang_vel", "command.twist",
    }  # fmt: skip
    found = compare(env, model, tmp_path / "out", 300)
    assert found.worst <= TOLERANCE
    assert found.resets >= 5
