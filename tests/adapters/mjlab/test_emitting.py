"""A whole environment of mjlab in the layouts of other controllers, beside what those write."""

from __future__ import annotations

import contextlib
import io
import json
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from mjlab.rl import MjlabOnPolicyRunner, RslRlVecEnvWrapper
from mjlab.tasks.registry import load_rl_cfg, load_runner_cls

import roadworthy as rw
from tests.adapters.mjlab.living import target, value
from tests.adapters.mjlab.tasks import CARTPOLE, GO1, made, short_episodes

YAM_DEPTH = "Mjlab-Lift-Cube-Yam-Depth"


@dataclass(frozen=True, eq=False)
class Emitted:
    """A task that was exported, and the file that mjlab's own runner writes of the same actor."""

    env: Any
    model: torch.nn.Module
    folder: Path
    theirs: Path


def emitted(task: str, root: Path, change: Callable[[Any], None] = lambda cfg: None) -> Emitted:
    env, cfg = made(task, short_episodes), load_rl_cfg(task)
    change(cfg)
    torch.manual_seed(0)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mjlab exports by PyTorch's older way, which says so
        wrapped = RslRlVecEnvWrapper(env, cfg.clip_actions)
        kind = load_runner_cls(task) or MjlabOnPolicyRunner
        runner = kind(wrapped, asdict(cfg) | {"upload_model": False}, None, "cpu")
        (root / "run").mkdir()
        runner.save(str(root / "run" / "model.pt"))
    rw.export(runner, root / "out", progress=False)
    return Emitted(env, runner.alg.get_policy().eval(), root / "out", root / "run" / "run.onnx")


@pytest.fixture(scope="module")
def go1(tmp_path_factory: pytest.TempPathFactory) -> Emitted:
    return emitted(GO1, tmp_path_factory.mktemp("go1"))


def metadata(path: Path) -> dict[str, str]:
    found = {each.key: each.value for each in onnx.load(path).metadata_props}
    found.pop("roadworthy.bundle", None)
    return found


def numbers(text: str) -> list[list[float]]:
    """mjlab's way to write lists, and lists in lists."""
    return [[float(each) for each in entry.split(";")] for entry in text.split(",")]


def opened(path: Path) -> ort.InferenceSession:
    return ort.InferenceSession(path, providers=["CPUExecutionProvider"])


def run(session: ort.InferenceSession, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    names = [port.name for port in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds), strict=True))


WORDS = ("run_path", "joint_names", "command_names", "observation_names")


def is_as_mjlab_writes_it(ours: Path, theirs: Path) -> None:
    """Keys, words, and numbers to the three decimals that mjlab keeps; then the ports."""
    mine, its = metadata(ours), metadata(theirs)
    assert mine.keys() == its.keys()
    for key, text in its.items():
        if key in WORDS:
            assert mine[key] == text, key
        else:
            for own, other in zip(numbers(mine[key]), numbers(text), strict=True):
                assert own == pytest.approx(other, abs=5.1e-4), key
    sides = [opened(path) for path in (ours, theirs)]
    for side in ("get_inputs", "get_outputs"):
        one, other = ({p.name: p.shape for p in getattr(each, side)()} for each in sides)
        assert one == other


@pytest.mark.long
@pytest.mark.slow
def test_a_file_for_mjlab_is_what_its_own_runner_writes(go1: Emitted) -> None:
    ours = rw.emit(go1.folder, "mjlab") / "policy.onnx"
    is_as_mjlab_writes_it(ours, go1.theirs)
    policy, mine, its = rw.load(go1.folder), opened(ours), opened(go1.theirs)
    rng = np.random.default_rng(0)
    for tick in range(12):
        feeds = {
            port.name: rng.normal(size=port.shape).astype(np.float32)
            for port in policy.signature.inputs
        }
        seen = {name: array.copy() for name, array in policy.step(feeds).items()}
        if tick % 4 == 0:  # a decision
            acted = run(mine, {"obs": seen["obs"]})["actions"]
            assert acted.tobytes() == seen["actions"].tobytes()
            assert acted == pytest.approx(run(its, {"obs": seen["obs"]})["actions"], abs=1e-6)
            assert np.abs(acted).max() > 1e-3


def exploy_value(env: Any, name: str) -> np.ndarray:
    """What Exploy's documentation says that a port of this name is, asked of mjlab."""
    robot = env.scene["robot"]
    known = {
        "obj.robot.joints.pos": robot.data.joint_pos,
        "obj.robot.joints.vel": robot.data.joint_vel,
        "obj.robot.trunk.w_Q_b": robot.data.root_link_quat_w,
        "sensor.imu.imu.lin_vel_b_rt_w_in_b": env.scene["robot/imu_lin_vel"].data,
        "sensor.imu.imu.ang_vel_b_rt_w_in_b": env.scene["robot/imu_ang_vel"].data,
        "cmd.se2_velocity.twist": env.command_manager.get_command("twist"),
    }
    return np.asarray(known[name].numpy())


@pytest.mark.long
@pytest.mark.slow
def test_exploys_controller_steps_beside_mjlab_and_the_bundle(go1: Emitted) -> None:
    """As the controller does it: count, read by name, run, write three targets, feed back."""
    env, model = go1.env, go1.model
    path = rw.emit(go1.folder, "exploy") / "policy.onnx"
    said = metadata(path)
    joints = list(env.scene["robot"].joint_names)
    assert json.loads(said["obj.robot.joints"]) == {"joint_names": joints}
    assert json.loads(said["base_names"])["robot"] == "trunk"
    assert (said["update_rate"], said["decimation"]) == ("200", "4")
    ranges = json.loads(said["cmd.se2_velocity.twist"])["ranges"]
    trained = env.command_manager.get_term("twist").cfg.ranges
    assert ranges["lin_vel_x"] == list(trained.lin_vel_x)
    told = json.loads(said["output.joint_targets.robot"])
    assert told["names"] == joints
    gains = [env.sim.mj_model.actuator(f"robot/{joint}").gainprm[0] for joint in joints]
    assert told["stiffness"] == gains
    session, policy = opened(path), rw.load(go1.folder)
    held = [p for p in session.get_inputs() if p.name.startswith("memory.")]
    memory: dict[str, np.ndarray] = {}
    worst, tick, resets = 0.0, 0, 0
    actions = env.action_manager
    applied = actions.apply_action

    def applying() -> None:
        nonlocal memory, tick, worst
        tick += 1
        read = {
            port.name: exploy_value(env, port.name)
            for port in session.get_inputs()
            if port.name.startswith(("obj.", "sensor.", "cmd."))
        }
        given = run(session, read | memory | {"ctx.step_count": np.asarray(tick, np.int32)})
        memory = {f"{n[:-4]}.in": each for n, each in given.items() if n.endswith(".out")}
        same = policy.step({p.name: value(env, p.name) for p in policy.signature.inputs})
        name = "robot.joint_pos_target"
        assert given["output.joint_targets.robot.pos"].tobytes() == same[name].tobytes()
        assert not given["output.joint_targets.robot.vel"].any()
        assert not given["output.joint_targets.robot.effort"].any()
        applied()
        expected = target(env, name, told["names"])
        worst = max(worst, float(np.abs(given["output.joint_targets.robot.pos"] - expected).max()))

    def reset() -> None:
        nonlocal memory, tick
        policy.reset()
        memory, tick = {p.name: np.zeros(p.shape, np.float32) for p in held}, 0

    env.scene["robot"].data.encoder_bias.zero_()
    actions.apply_action = applying
    try:
        with torch.inference_mode():
            obs, _ = env.reset()
            reset()
            for _ in range(60):
                obs, _, ended, timed_out, _ = env.step(model(obs))
                if bool((ended | timed_out).any()):
                    resets += 1
                    reset()
    finally:
        del actions.apply_action
    assert worst <= 1e-5
    assert resets >= 1
    assert not session.get_overridable_initializers()


@pytest.mark.long
@pytest.mark.slow
def test_images_stay_inputs_of_their_own_in_mjlabs_file(tmp_path: Path) -> None:
    yam = emitted(YAM_DEPTH, tmp_path)
    is_as_mjlab_writes_it(rw.emit(yam.folder, "mjlab") / "policy.onnx", yam.theirs)
    with pytest.raises(rw.UsageError, match=r"RW027.*the controller has no name for sensor"):
        rw.emit(yam.folder, "exploy")


def test_what_mjlab_does_not_write_is_refused_and_exploy_moves_the_cart(tmp_path: Path) -> None:
    env = made(CARTPOLE)
    rw.export_environment(env, torch.nn.Linear(5, 1), tmp_path / "cart", progress=False)
    with pytest.raises(rw.UsageError, match="one term of joint positions") as caught:
        rw.emit(tmp_path / "cart", "mjlab")
    assert "effort of cartpole" in str(caught.value)
    path = rw.emit(tmp_path / "cart", "exploy") / "policy.onnx"
    told = json.loads(metadata(path)["output.joint_targets.cartpole"])
    assert told == {"type": "joint_targets", "names": ["slider"], "stiffness": [0.0],
                    "damping": [0.0]}  # fmt: skip
