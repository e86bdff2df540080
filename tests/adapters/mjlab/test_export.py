"""mjlab's environments go in as they are, and come back as they were."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import warp

import roadworthy as rw
from roadworthy.inspection.walking import mutable
from tests.adapters.mjlab.living import compare
from tests.adapters.mjlab.tasks import CARTPOLE, GO1, actor, delayed, history, made, short_episodes

TOLERANCE = 1e-5


@dataclass(frozen=True, eq=False)
class Exported:
    env: Any
    model: torch.nn.Module
    folder: Path
    signature: rw.Signature
    before: str
    after: str


def digest(env: Any) -> str:
    """A hash over every array of the environment, warp's included, and every number."""
    found = hashlib.sha256()
    for each in mutable([env]):
        if isinstance(each, torch.Tensor):
            found.update(each.detach().numpy().tobytes())
        elif isinstance(each, (np.ndarray, warp.array)):
            found.update(np.asarray(each).tobytes())
        elif hasattr(each, "__dict__"):
            numbers = {k: v for k, v in vars(each).items() if isinstance(v, (bool, int, float))}
            found.update(repr(sorted(numbers.items())).encode())
    return found.hexdigest()


def exported(task: str, change: Callable[[Any], None], folder: Path) -> Exported:
    env = made(task, change)
    model = actor(env, task)
    for _ in range(3):
        env.step(torch.ones(1, env.action_manager.total_action_dim))
    before = digest(env)
    bundle = rw.export_environment(env, model, folder, progress=False)
    return Exported(env, model, folder, bundle.signature, before, digest(env))


@pytest.fixture(scope="module")
def with_history(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return exported(CARTPOLE, history, tmp_path_factory.mktemp("history") / "out")


def test_an_environment_is_handed_back_bit_for_bit(with_history: Exported) -> None:
    assert with_history.after == with_history.before
    random = torch.get_rng_state()
    with_history.env.step(torch.ones(1, 1))
    assert torch.equal(torch.get_rng_state(), random)
    assert digest(with_history.env) != with_history.before


def test_ports_have_the_names_of_the_robot(with_history: Exported) -> None:
    signature = with_history.signature
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


def test_the_signature_carries_the_robot(with_history: Exported) -> None:
    robot = with_history.signature.robot
    assert robot is not None
    assert robot.joints == ("slider", "hinge_1")
    assert robot.motors == ()  # none moves the hinge
    assert dict(robot.default_position) == {"slider": 0.0, "hinge_1": 0.0}
    assert robot.action is not None
    assert robot.action.output == "cartpole.joint_effort_target"
    assert robot.action.applied_by == "policy"
    assert [(term.name, term.size, term.history) for term in robot.observations] == [
        ("cart_pos", 1, 4), ("pole_angle", 2, 4), ("cart_vel", 1, 4), ("pole_vel", 1, 4),
    ]  # fmt: skip
    import onnx

    properties = onnx.load(with_history.folder / "policy.onnx").metadata_props
    said = {each.key: each.value for each in properties}
    assert json.loads(said["robot"]) == robot.to_json()
    assert json.loads(said["physics_dt"]) == pytest.approx(0.01)


def test_a_history_gives_what_mjlab_gives_over_300_steps_with_resets(
    with_history: Exported,
) -> None:
    found = compare(with_history.env, with_history.model, with_history.folder, 300)
    assert found.worst <= TOLERANCE
    assert found.resets >= 5


@pytest.mark.parametrize("change", [short_episodes, delayed])
def test_a_cartpole_gives_what_mjlab_gives_over_300_steps_with_resets(
    change: Callable[[Any], None], tmp_path: Path
) -> None:
    made = exported(CARTPOLE, change, tmp_path / "out")
    found = compare(made.env, made.model, made.folder, 300)
    assert found.worst <= TOLERANCE
    assert found.resets >= 5


@pytest.mark.long
@pytest.mark.slow
def test_go1_gives_what_mjlab_gives_and_carries_its_robot(tmp_path: Path) -> None:
    made = exported(GO1, short_episodes, tmp_path / "out")
    assert made.after == made.before
    assert {port.name for port in made.signature.inputs} == {
        "robot.joint_pos", "robot.joint_vel", "robot.root_quat", "sensor.robot.imu_lin_vel",
        "sensor.robot.imu_ang_vel", "command.twist",
    }  # fmt: skip
    found = compare(made.env, made.model, made.folder, 100)
    assert found.worst <= TOLERANCE
    assert found.resets >= 2
    robot = rw.load(made.folder).signature.robot
    assert robot is not None
    assert robot.joints == tuple(made.env.scene["robot"].joint_names)
    assert set(robot.motors) == set(robot.joints)
    # On this robot the motors are counted otherwise than the joints: numbers go by names.
    assert robot.motors != robot.joints
    model = made.env.sim.mj_model
    for name, gain in robot.stiffness:
        assert gain == model.actuator(f"robot/{name}").gainprm[0]
