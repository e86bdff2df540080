"""Scales, clips and casts: the same as TorchRL, step by step, in both directions."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torchrl import set_auto_unwrap_transformed_env
from torchrl.envs import GymEnv, SerialEnv, TransformedEnv
from torchrl.envs.transforms import (
    ActionScaling,
    CatTensors,
    ClipTransform,
    Compose,
    DoubleToFloat,
    DTypeCastTransform,
    ObservationNorm,
    RewardScaling,
    VecNorm,
    VecNormV2,
)

from roadworthy.frameworks.torchrl.transforms import stages
from tests.adapters.torchrl.transforms.following import Eager, Staged, follow, pendulum

OLD_VEC_NORM = pytest.mark.filterwarnings("ignore:This class is to be deprecated:FutureWarning")


def many() -> Compose:
    """Most of this module in one chain, so that one export shows them all."""
    each = torch.tensor([2.0, 3.0, 1.0])
    return Compose(
        DTypeCastTransform(torch.float32, torch.float64, in_keys=["observation"], out_keys=["d"]),
        DoubleToFloat(in_keys=["d"], out_keys=["f"]),
        ObservationNorm(0.5, 2.0, in_keys=["f"], out_keys=["n"], standard_normal=True),
        ObservationNorm(0.5, each, in_keys=["observation", "n"], out_keys=["m", "k"]),
        ClipTransform(in_keys=["n"], out_keys=["c"], low=-0.5, high=0.1),
        ClipTransform(in_keys=["m"], out_keys=["above"], low=-0.5),
        ClipTransform(in_keys=["m"], out_keys=["under"], high=0.5),
        CatTensors(["k", "c", "d"], "cat", del_keys=False),
        ClipTransform(in_keys_inv=["action"], low=-1.9, high=1.7),
        ObservationNorm(0.1, 0.9, in_keys=[], in_keys_inv=["action"], standard_normal=True),
        ObservationNorm(0.1, 0.9, in_keys=[], in_keys_inv=["action"]),
        ActionScaling(standard_normal=False),
        DTypeCastTransform(torch.float32, torch.float64, in_keys=[], in_keys_inv=["action"]),
        RewardScaling(0.0, 2.0),
    )


KEYS = ["cat", "above", "under", "m"]


@pytest.mark.parametrize("rows", [1, 3])
def test_scaling_is_exact_in_both_directions(rows: int) -> None:
    made = follow(many, in_keys=KEYS, rows=rows)
    assert made.inputs == ("observation",)
    assert [stage.name for stage in made.action] == [
        "DTypeCastTransform", "ActionScaling", "ObservationNorm", "ObservationNorm",
        "ClipTransform",
    ]  # fmt: skip
    assert [each.name for each in made.left_out] == ["RewardScaling"]


def test_scaling_survives_the_export(tmp_path: Path) -> None:
    for rows in (3, 1):
        follow(many, in_keys=KEYS, rows=rows, folder=tmp_path / "bundle", tolerance=2e-6)


def test_a_constant_of_more_axes_than_a_row_meets_single_rows() -> None:
    norm = ObservationNorm(torch.ones(2, 3), torch.rand(1, 3), in_keys=["observation"])
    made = stages(norm, in_keys=["observation"], action_key="action")
    rows = torch.rand(2, 3)
    (got,) = made.observation[0].module(rows)
    assert torch.equal(got, torch.stack([norm._apply_transform(row) for row in rows]))


def test_half_of_a_scaled_action_is_a_torque_of_one() -> None:
    env = TransformedEnv(pendulum(), ActionScaling())
    made = stages(env, in_keys=["observation"], action_key="action")
    (torque,) = made.action[0].module(torch.tensor([[0.5]]))
    assert torque.item() == 1.0


@set_auto_unwrap_transformed_env(False)
def test_casts_without_keys_are_found_in_the_environment() -> None:
    """The numbers of gymnasium are float32 already; here the inner environment is made double."""

    def double() -> TransformedEnv:
        keys = {"in_keys": ["observation"], "in_keys_inv": ["action"]}
        cast = DTypeCastTransform(torch.float32, torch.float64, **keys)
        return TransformedEnv(pendulum(), cast)

    made = follow(DoubleToFloat, in_keys=["observation"], base=double, bare=pendulum, steps=10)
    assert [stage.name for stage in made.observation] == ["DTypeCastTransform", "DoubleToFloat"]
    assert [stage.name for stage in made.action] == ["DoubleToFloat", "DTypeCastTransform"]


def warmed(env: TransformedEnv) -> None:
    """Statistics of twenty seeded steps, and then no more."""
    torch.manual_seed(0)
    env.set_seed(5)
    env.rollout(20)
    env.transform.freeze()


@OLD_VEC_NORM
@pytest.mark.parametrize("decay", [0.99, 1.0])
@pytest.mark.parametrize("version", ["VecNorm", "VecNormV2"])
def test_vec_norm_is_frozen_at_its_statistics(version: str, decay: float) -> None:
    def norm() -> VecNorm | VecNormV2:
        keys = {"in_keys": ["observation", "reward"], "out_keys": ["norm", "reward"]}
        if version == "VecNorm":
            return VecNorm(**keys, decay=decay, new_api=False)
        return VecNormV2(**keys, decay=decay)

    made = follow(norm, in_keys=["norm"], before=warmed, steps=20)
    assert [(stage.in_keys, stage.out_keys) for stage in made.observation] == [
        (("observation",), ("norm",))
    ]


@OLD_VEC_NORM
@pytest.mark.parametrize("version", [VecNorm, VecNormV2])
def test_live_statistics_move_neither_by_the_stage_nor_under_it(version: type) -> None:
    options = {"new_api": False} if version is VecNorm else {}
    env = TransformedEnv(pendulum(), version(in_keys=["observation"], **options))
    env.rollout(10)
    before = {k: v.clone() for k, v in env.transform.get_extra_state().items()}
    runner = Eager(Staged(stages(env, in_keys=["observation"], action_key="action"),
                          ["observation"], "action"), 1)  # fmt: skip
    raw, action = {"observation": torch.ones(1, 3)}, torch.zeros(1, 1)
    first = runner.step(raw, action)["observation"]
    assert all(torch.equal(v, before[k]) for k, v in env.transform.get_extra_state().items())
    assert not env.transform.frozen
    env.rollout(10)
    assert torch.equal(runner.step(raw, action)["observation"], first)


def test_statistics_that_keep_the_axis_of_a_batch_hold_for_each_row() -> None:
    norm = ObservationNorm(in_keys=["observation"], out_keys=["norm"], standard_normal=True)
    env = TransformedEnv(SerialEnv(3, pendulum), norm)
    norm.init_stats(num_iter=5, reduce_dim=(0, 1), cat_dim=1, keep_dims=(0,))
    assert norm.loc.shape == (1, 3)
    made = stages(env, in_keys=["norm"], action_key="action")
    shown = env.reset()
    (got,) = made.observation[0].module(shown["observation"])
    assert torch.equal(got, shown["norm"])
    env.close()


def test_bounds_of_a_batch_of_environments_hold_for_each_row() -> None:
    env = TransformedEnv(SerialEnv(3, lambda: GymEnv("Pendulum-v1")), ActionScaling())
    made = stages(env, in_keys=["observation"], action_key="action")
    (torque,) = made.action[0].module(torch.tensor([[0.5], [-1.0]]))
    assert torque.tolist() == [[1.0], [-2.0]]
