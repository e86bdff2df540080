"""Contacts as inputs, and controls behind late actuators: mjlab's own beside the file's."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mjlab.managers import ObservationTermCfg

import roadworthy as rw
from tests.adapters.mjlab.living import value
from tests.adapters.mjlab.tasks import GO1, actor, made, short_episodes
from tests.adapters.mjlab.test_export import TOLERANCE


def feet(env: Any) -> torch.Tensor:
    touching: torch.Tensor = env.scene["feet_ground_contact"].data.found.float().flatten(1)
    return touching


def forces(env: Any) -> torch.Tensor:
    pressing: torch.Tensor = 0.01 * env.scene["feet_ground_contact"].data.force.flatten(1)
    return pressing


def feels_and_is_late(cfg: Any) -> None:
    short_episodes(cfg)
    cfg.observations["actor"].terms |= {
        "feet": ObservationTermCfg(func=feet),
        "forces": ObservationTermCfg(func=forces, clip=(-5.0, float("inf"))),
    }
    moved = cfg.scene.entities["robot"].articulation
    moved.actuators = tuple(
        dataclasses.replace(each, delay_min_lag=2, delay_max_lag=2) for each in moved.actuators
    )


@pytest.mark.long
@pytest.mark.slow
def test_controls_come_as_late_as_mjlabs_own(tmp_path: Path) -> None:
    env = made(GO1, feels_and_is_late)
    model = actor(env, GO1)
    bundle = rw.export_environment(env, model, tmp_path / "out", outputs="ctrl", progress=False)
    policy = rw.load(bundle.folder)
    ports = {port.name for port in policy.signature.inputs}
    assert {"sensor.feet_ground_contact.found", "sensor.feet_ground_contact.force"} <= ports
    assert "delay.robot.actuators_0" in {each.name for each in policy.signature.memory}
    actions, scene, robot = env.action_manager, env.scene, env.scene["robot"]
    applied, written = actions.apply_action, scene.write_data_to_sim
    given: list[np.ndarray] = []
    worst, resets = 0.0, 0

    def applying() -> None:
        feeds = {port.name: value(env, port.name) for port in policy.signature.inputs}
        given.append(policy.step(feeds)["robot.ctrl"].copy())
        applied()

    def writing() -> None:
        nonlocal worst
        written()
        if given:  # a reset writes without having applied
            expected = env.sim.data.ctrl[:, robot.indexing.ctrl_ids].numpy()
            worst = max(worst, float(np.abs(given.pop() - expected).max()))

    robot.data.encoder_bias.zero_()
    actions.apply_action, scene.write_data_to_sim = applying, writing
    with torch.inference_mode():
        obs, _ = env.reset()
        policy.reset()
        for _ in range(100):
            obs, _, ended, timed_out, _ = env.step(model(obs))
            if bool((ended | timed_out).any()):
                resets += 1
                policy.reset()
    assert worst <= TOLERANCE
    assert resets >= 2
