"""Shapes and keys: the same elements at the same places."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torchrl.envs.transforms import (
    CatTensors,
    Compose,
    DeviceCastTransform,
    ExcludeTransform,
    ExpandAs,
    FlattenObservation,
    PermuteTransform,
    RenameTransform,
    SelectTransform,
    SqueezeTransform,
    Stack,
    StepCounter,
    UnaryTransform,
    UnsqueezeTransform,
)

from tests.adapters.torchrl.transforms.following import follow

KEYS = [("nested", "cat"), ("nested", "copy"), "turned", "fronts", "column", "grown"]


def many() -> Compose:
    return Compose(
        DeviceCastTransform("cpu"),
        StepCounter(),
        UnsqueezeTransform(-1, in_keys=["observation"], out_keys=["column"]),
        UnsqueezeTransform(0, allow_positive_dim=True, in_keys=["observation"], out_keys=["row"]),
        SqueezeTransform(-1, in_keys=["column"], out_keys=["flat"]),
        PermuteTransform([-1], in_keys=["flat"], out_keys=["flat2"]),
        # One row: a function that looks at the whole of it must not look at the whole batch.
        UnaryTransform(["flat"], ["centred"], fn=lambda x: x - x.mean()),
        Stack(["flat", "flat2"], "both", dim=-2, del_keys=False),
        Stack(["flat2", "flat"], "front", dim=0, allow_positive_dim=True, del_keys=False),
        PermuteTransform([-1, -2], in_keys=["both"], out_keys=["turned"]),
        FlattenObservation(-2, -1, in_keys=["turned"], out_keys=["line"]),
        FlattenObservation(0, 1, in_keys=["both"], out_keys=["line2"], allow_positive_dim=True),
        ExpandAs("step_count", "turned", "grown"),
        RenameTransform(["line"], ["renamed"]),
        RenameTransform(["renamed"], [("nested", "copy")], create_copy=True),
        CatTensors(
            ["line2", "step_count", "renamed", "centred"], ("nested", "cat"), del_keys=False
        ),
        CatTensors(["front"], "fronts"),
        ExcludeTransform("row"),
        SelectTransform(*KEYS[:2], "turned", "fronts", "column", "grown", "step_count"),
        UnsqueezeTransform(-1, in_keys=[], in_keys_inv=["action"]),
        SqueezeTransform(-1, in_keys=[], in_keys_inv=["action"]),
        UnaryTransform([], [], ["action"], ["action"], fn=torch.tanh, inv_fn=lambda a: 2 * a.sin()),
        PermuteTransform([-1], in_keys=[], in_keys_inv=["action"]),
        RenameTransform([], [], ["action"], [("agent", "move")]),
    )


@pytest.mark.parametrize("rows", [1, 3])
def test_shapes_are_exact_in_both_directions(rows: int) -> None:
    made = follow(many, in_keys=KEYS, rows=rows, action_key=("agent", "move"))
    assert made.inputs == ("observation",)
    assert made.outputs == ("action",)


def test_shapes_survive_the_export(tmp_path: Path) -> None:
    for rows in (3, 1):
        follow(
            many, in_keys=KEYS, rows=rows, action_key=("agent", "move"),
            folder=tmp_path / "bundle", tolerance=1e-6,
        )  # fmt: skip
