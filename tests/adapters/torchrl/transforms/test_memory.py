"""Transforms that remember, against TorchRL over many steps, each row reset at its own time."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torchrl.data import Unbounded
from torchrl.envs import EnvBase, GymEnv, SerialEnv, TransformedEnv
from torchrl.envs.transforms import (
    CatFrames,
    Compose,
    FrameSkipTransform,
    InitTracker,
    ObservationNorm,
    StepCounter,
    TargetReturn,
    TensorDictPrimer,
    TimeMaxPool,
    UnsqueezeTransform,
)

from roadworthy.frameworks.torchrl.transforms import LeftOut, stages
from tests.adapters.torchrl.transforms.following import Eager, Staged, agree, follow

KEYS = ["same", "row2", "constant", "pool", "step_count", "is_init", "target_return"]


def many() -> Compose:
    return Compose(
        InitTracker(),
        StepCounter(max_steps=50),
        UnsqueezeTransform(-2, in_keys=["observation"], out_keys=["row"]),
        CatFrames(4, -2, in_keys=["row"], out_keys=["same"]),
        CatFrames(2, -1, in_keys=["observation", "row"], out_keys=["twice", "row2"]),
        CatFrames(3, -1, in_keys=["twice"], out_keys=["constant"], padding="constant",
                  padding_value=-1.5),
        TimeMaxPool(in_keys=["observation"], out_keys=["pool"], T=3),
        TargetReturn(10.0, mode="constant"),
    )  # fmt: skip


@pytest.mark.parametrize("rows", [1, 3])
def test_memory_is_exact_over_many_steps_and_resets(rows: int) -> None:
    made = follow(many, in_keys=KEYS, rows=rows, steps=120)
    assert made.left_out == (LeftOut("StepCounter", "apply in your loop: max_steps=50"),)
    names = [name for stage in made.observation for name in stage.memory]
    assert len(set(names)) == len(names) == 11


def test_memory_survives_the_export(tmp_path: Path) -> None:
    for rows, steps in ((3, 100), (1, 20)):
        follow(many, in_keys=KEYS, rows=rows, steps=steps, folder=tmp_path / "b", tolerance=1e-6)


def test_episodes_that_end_by_themselves_start_again() -> None:
    def cart_pole() -> EnvBase:
        return GymEnv("CartPole-v1")

    def chain() -> Compose:
        return Compose(CatFrames(3, -1, in_keys=["observation"]), StepCounter(), InitTracker())

    follow(chain, in_keys=["observation", "step_count", "is_init"], base=cart_pole, steps=100)


def test_frames_have_their_shape_before_and_after_the_first_step() -> None:
    def chain() -> Compose:
        return Compose(CatFrames(3, -1, in_keys=["observation"]), TimeMaxPool(T=2))

    env = TransformedEnv(SerialEnv(2, lambda: GymEnv("Pendulum-v1")), chain())
    before = stages(env, in_keys=["observation"], action_key="action")
    env.rollout(3)
    after = stages(env, in_keys=["observation"], action_key="action")
    for made in (before, after):
        shapes = {name: tuple(v.shape) for s in made.observation for name, v in s.initial.items()}
        assert shapes == {
            "catframes_observation": (1, 9),
            "catframes_observation_started": (1, 1),
            "timemaxpool_observation": (1, 1, 9),
        }
    env.close()


def test_a_batch_of_environments_gives_the_same_rows() -> None:
    env = TransformedEnv(
        SerialEnv(2, lambda: GymEnv("Pendulum-v1")),
        Compose(CatFrames(3, -1, in_keys=["observation"], out_keys=["frames"]), StepCounter()),
    )
    in_keys = ["frames", "step_count"]
    made = stages(env, in_keys=in_keys, action_key="action")
    runner = Eager(Staged(made, in_keys, "action"), 2)
    for step, td in enumerate(env.rollout(10).unbind(-1)):
        got = runner.step({"observation": td["observation"]}, td["action"])
        for key in in_keys:
            agree(got[key], td[key], 0.0, f"{key} at step {step}")
    env.close()


def test_two_of_a_kind_remember_apart() -> None:
    def chain() -> Compose:
        return Compose(
            CatFrames(2, -1, in_keys=["observation"]),
            ObservationNorm(1.0, 2.0, in_keys=["observation"]),
            CatFrames(2, -1, in_keys=["observation"]),
        )

    made = follow(chain, in_keys=["observation"], steps=20)
    assert [list(stage.memory) for stage in made.observation] == [
        ["catframes_observation", "catframes_observation_started"],
        [],
        ["catframes_observation_2", "catframes_observation_started_2"],
    ]


def test_a_primed_key_says_where_an_episode_starts() -> None:
    primer = TensorDictPrimer(
        {"hidden": Unbounded(shape=(4,)), "other": Unbounded(shape=(1,))},
        default_value={"hidden": 0.5, "other": 1.0},
    )
    env = TransformedEnv(GymEnv("Pendulum-v1"), primer)
    made = stages(env, in_keys=["observation", "hidden"], action_key="action")
    assert {key: value.tolist() for key, value in made.primed.items()} == {"hidden": [[0.5] * 4]}
    assert made.inputs == ("observation",)
    assert made.observation == made.left_out == ()


@pytest.mark.parametrize("used", [False, True])
def test_a_primed_key_has_one_row_in_a_batch_of_its_own_size(used: bool) -> None:
    primer = TensorDictPrimer({"hidden": Unbounded(shape=(2, 4))}, expand_specs=True)
    env = TransformedEnv(SerialEnv(2, lambda: GymEnv("Pendulum-v1")), primer)
    if used:
        assert env.reset()["hidden"].shape == (2, 2, 4)
        env.close()
    made = stages(env, in_keys=["observation", "hidden"], action_key="action")
    assert made.primed["hidden"].shape == (1, 2, 4)


def test_frame_skip_in_front_of_memory_is_left_to_the_loop() -> None:
    env = TransformedEnv(
        GymEnv("Pendulum-v1"),
        Compose(FrameSkipTransform(4), CatFrames(3, -1, in_keys=["observation"])),
    )
    made = stages(env, in_keys=["observation"], action_key="action")
    assert made.left_out == (LeftOut("FrameSkipTransform", "apply in your loop: frame_skip=4"),)
    assert torch.equal(made.observation[0].initial["catframes_observation"], torch.zeros(1, 9))
