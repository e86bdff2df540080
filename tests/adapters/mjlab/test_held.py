"""What users of mjlab hold: a wrapper, a runner, its inference policy, several environments."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mjlab.envs.mdp import dr
from mjlab.managers import EventTermCfg, ObservationTermCfg, SceneEntityCfg
from mjlab.rl import MjlabOnPolicyRunner, RslRlVecEnvWrapper
from mjlab.tasks.registry import load_rl_cfg

import roadworthy as rw
from roadworthy.frameworks.mjlab.live import describe
from tests.adapters.mjlab.tasks import CARTPOLE, actor, made, short_episodes
from tests.adapters.mjlab.test_export import TOLERANCE, digest

MULTI_CUBE = "Mjlab-Multi-Cube-Seg-Yam"


def runner_of(env: Any, change: Callable[[Any], None] = lambda cfg: None) -> MjlabOnPolicyRunner:
    cfg = load_rl_cfg(CARTPOLE)
    change(cfg)
    with contextlib.redirect_stdout(io.StringIO()):
        wrapped = RslRlVecEnvWrapper(env, cfg.clip_actions)
        return MjlabOnPolicyRunner(wrapped, asdict(cfg), None, "cpu")


def recurrent(cfg: Any) -> None:
    for model in (cfg.actor, cfg.critic):
        model.class_name, model.rnn_type, model.rnn_hidden_dim = "RNNModel", "lstm", 16


def test_an_environment_is_found_in_its_wrapper_and_in_a_runner() -> None:
    env = made(CARTPOLE)
    runner = runner_of(env, lambda cfg: setattr(cfg, "clip_actions", 0.5))
    model = runner.alg.get_policy()
    for held in (
        describe(env, actor=model),
        describe(runner.env, actor=runner.get_inference_policy()),
        describe(runner),
    ):
        assert list(held.inputs) == ["cartpole.joint_pos", "cartpole.joint_vel"]
        assert held.actor.model is model
    assert describe(env, actor=model).actor.clip_actions is None
    assert describe(runner).actor.clip_actions == 0.5


def test_a_runner_with_a_recurrent_actor_is_exported_as_it_is(tmp_path: Path) -> None:
    env = made(CARTPOLE, short_episodes)
    runner = runner_of(env, recurrent)  # whose wrapper resets the environment
    before = digest(env)
    signature = rw.export(runner, tmp_path / "out", progress=False).signature
    assert digest(env) == before
    assert runner.alg.get_policy().get_hidden_state() is None  # as a network that never ran
    assert {each.name: each.shape for each in signature.memory} == {
        "processed_actions": (1, 1),
        "actor_hidden_state_0": (1, 1, 16),
        "actor_hidden_state_1": (1, 1, 16),
    }


@pytest.mark.long
@pytest.mark.slow
def test_ctrl_goes_on_to_the_controls_of_the_simulator(tmp_path: Path) -> None:
    env = made(CARTPOLE, short_episodes)
    model = actor(env, CARTPOLE)
    bundle = rw.export_environment(env, model, tmp_path / "out", outputs="ctrl", progress=False)
    policy = rw.load(bundle.folder)
    with torch.inference_mode():
        obs, _ = env.reset()
        for _ in range(5):
            joints = env.scene["cartpole"].data
            ports = {"joint_pos": joints.joint_pos, "joint_vel": joints.joint_vel}
            feed = {f"cartpole.{name}": each.numpy().copy() for name, each in ports.items()}
            got = policy.step(feed)["cartpole.ctrl"]
            policy.reset()
            obs, *_ = env.step(model(obs))
            expected = env.sim.data.ctrl.numpy()
            assert np.abs(got - expected).max() <= TOLERANCE


@pytest.mark.long
@pytest.mark.slow
def test_several_environments_make_a_file_of_as_many_rows_and_that_is_said(tmp_path: Path) -> None:
    env = made(CARTPOLE, short_episodes, count=4)
    model = actor(env, CARTPOLE)
    before = digest(env)
    with pytest.warns(rw.RoadworthyWarning, match="exactly 4 rows"):
        bundle = rw.export_environment(env, model, tmp_path / "out", progress=False)
    assert digest(env) == before
    policy = rw.load(bundle.folder)
    rows = {port.name: np.zeros((4, 2), np.float32) for port in policy.signature.inputs}
    assert policy.step(rows)["cartpole.joint_effort_target"].shape == (4, 1)


def test_a_table_that_nobody_changes_is_a_constant_and_that_is_said() -> None:
    """Which cube is meant stays an input; the numbers of the cubes in the simulator do not."""
    env = made(MULTI_CUBE)
    described = describe(env, actor=actor(env, MULTI_CUBE)).env
    commands = [name for name in described.context_manager().get_input_names() if "command" in name]
    assert commands == ["command.lift_height", "command.lift_height.target_selection"]
    note, left_out = described.advisories()
    assert (note.code, note.severity) == ("RW352", "note")
    assert note.where == "command.lift_height.padded_geom_ids"
    assert (left_out.code, left_out.severity) == ("RW353", "note")
    assert "drawing of the commands lift_height; events " in left_out.what
    assert "terminations time_out" in left_out.what


def weighed(env: Any) -> torch.Tensor:
    """An observation of the robot's mass, which training draws at random."""
    mass: torch.Tensor = env.sim.model.body_mass[:, -1:] + 0.0
    return mass


def heavier(cfg: Any) -> None:
    term = ObservationTermCfg(func=weighed)
    cfg.observations["actor"].terms["mass"] = term
    cfg.events["mass"] = EventTermCfg(
        mode="startup", func=dr.body_mass,
        params={"ranges": (1.1, 1.4), "asset_cfg": SceneEntityCfg("cartpole")},
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore:dr.body_mass")  # that inertia stays is mjlab's concern
def test_a_constant_that_a_start_up_event_drew_is_said() -> None:
    env = made(CARTPOLE, heavier)
    said, _ = describe(env, actor=torch.nn.Linear(6, 1)).env.advisories()
    assert (said.code, said.severity, said.where) == ("RW188", "warning", "sim.model.body_mass")
