"""Normalisers and action steps: strict JSON both ways, ill-defined ones refused on entry."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import roadworthy as rw
from roadworthy.errors import UsageError
from roadworthy.spec.transforms import tagged

STEPS = [
    rw.EpsInsideRoot(mean=(0.0, 1.0), var=(1.0, 4.0), eps=1e-8, clip=10.0),
    rw.EpsInsideRoot(mean=np.zeros(3), var=torch.ones(3), eps=1e-5),
    rw.EpsOutsideRoot(mean=[0.5], std=[2.0], eps=1e-2),
    rw.Tanh(),
    rw.ScaleOffset(),
    rw.ScaleOffset(scale=(0.5, -2.0), offset=np.float32(0.1)),
    rw.ScaleToBounds(low=(-1, -2), high=(1, 2)),
    rw.Clip(low=-math.inf, high=(1.0, math.inf)),
    rw.Argmax(),
    rw.Argmax(table=("left", "right"), mask="allowed"),
    rw.Argmax(table=(3, 7, 11)),
    rw.Argmax(table=("noop", 7)),
    rw.MultiDiscrete(sizes=[3, 4], mask="allowed"),
]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: type(step).__name__)
def test_step_survives_strict_json(step: Any) -> None:
    text = json.dumps(step.to_json(), allow_nan=False)
    back = tagged(json.loads(text))
    assert back == step
    assert type(back) is type(step)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: type(step).__name__)
def test_step_is_frozen_and_hashable(step: Any) -> None:
    assert len({step, tagged(step.to_json())}) == 1
    for field in dataclasses.fields(step):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(step, field.name, None)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (
            lambda: rw.EpsInsideRoot(mean=(0.0,), var=(1.0, 1.0), eps=1e-8),
            "[RW030] EpsInsideRoot: the statistics have different shapes: (1,), (2,)",
        ),
        (
            lambda: rw.EpsInsideRoot(mean=(), var=(), eps=1e-8),
            "[RW030] EpsInsideRoot: the statistics are empty",
        ),
        (
            lambda: rw.EpsOutsideRoot(mean=(math.nan,), std=(1.0,), eps=1e-8),
            "[RW030] EpsOutsideRoot: the statistics are NaN or infinite",
        ),
        (
            lambda: rw.EpsOutsideRoot(mean=(0.0,), std=(0.0,), eps=0.0),
            "[RW030] EpsOutsideRoot: a spread plus eps is 0 or less: the formula would divide "
            "by zero",
        ),
        (
            lambda: rw.EpsInsideRoot(mean=(0.0,), var=(-1.0,), eps=1e-8),
            "[RW030] EpsInsideRoot: a spread plus eps is 0 or less: the formula would divide "
            "by zero",
        ),
        (
            lambda: rw.EpsInsideRoot(mean=(0.0,), var=(1.0,), eps=1e-8, clip=0.0),
            "[RW030] EpsInsideRoot: clip must be positive, got 0.0",
        ),
        (
            lambda: rw.EpsInsideRoot(mean=(0.0,), var=(1.0,), eps=1e-8, clip=math.nan),
            "[RW030] EpsInsideRoot: clip must be positive, got nan",
        ),
        (
            lambda: rw.ScaleOffset(scale=(1.0, 0.0)),
            "[RW030] ScaleOffset: a scale of 0 would switch an action off",
        ),
        (
            lambda: rw.ScaleOffset(offset=math.inf),
            "[RW030] ScaleOffset: scale and offset must be finite",
        ),
        (
            lambda: rw.ScaleToBounds(low=-math.inf, high=1.0),
            "[RW030] ScaleToBounds: the bounds must be finite",
        ),
        (
            lambda: rw.ScaleToBounds(low=(0, 0), high=(1, 1, 1)),
            "[RW023] ScaleToBounds: low and high have different lengths",
        ),
        (lambda: rw.Clip(low=1.0, high=-1.0), "[RW023] Clip: low 1.0 is not below high -1.0"),
        (lambda: rw.Clip(low=math.nan, high=1.0), "[RW023] Clip: the low limit is NaN"),
        (
            lambda: rw.MultiDiscrete(sizes=(3, 1)),
            "[RW030] MultiDiscrete: every group needs at least two choices, got (3, 1)",
        ),
        (
            lambda: rw.MultiDiscrete(sizes=()),
            "[RW030] MultiDiscrete: every group needs at least two choices, got ()",
        ),
    ],
)
def test_ill_defined_step_is_refused(make: Callable[[], Any], expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert str(caught.value) == expected


def test_two_problems_of_one_step_are_reported_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        rw.EpsInsideRoot(mean=(0.0,), var=(1.0, math.inf), eps=1e-8, clip=-1.0)
    assert [finding.what for finding in caught.value.findings] == [
        "the statistics have different shapes: (1,), (2,)",
        "the statistics are NaN or infinite",
        "clip must be positive, got -1.0",
    ]
