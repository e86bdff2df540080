"""Descriptions that do not fit the module are refused, with the description to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import roadworthy as rw
from roadworthy.errors import UsageError
from tests.capture import refused
from tests.capture.conftest import Refuse

OBS = {"obs": torch.zeros(1, 4)}
TWO = {"obs": torch.zeros(1, 4), "goal": torch.zeros(1, 4)}
STATISTICS = rw.EpsInsideRoot(mean=[0.0] * 4, var=[1.0] * 4, eps=1e-8)

EXAMPLES = {
    "empty": ({}, "[RW001] the example is empty\n  → pass example={'obs': obs}"),
    "scalar": (
        {"obs": torch.zeros(())},
        "[RW001] obs: the example has no batch axis\n  → pass obs[None]",
    ),
    "nothing in a part": (
        {"obs": {"pose": torch.zeros(1, 3), "more": torch.zeros(1, 0)}},
        "[RW001] obs.more: the example is empty: its shape is (1, 0)\n  → an input without "
        "elements tells the policy nothing: leave it out of the example, and give the module "
        "'obs.pose'[:, :0] in its place",
    ),
    "none": (
        {"obs": None},
        "[RW001] example 'obs': expected a tensor or an array, got NoneType\n  → pass "
        "torch.as_tensor(value), batch axis first",
    ),
    "list": (
        {"obs": [1.0, 2.0]},
        "[RW001] example 'obs.0': expected a tensor or an array, got float\n  → pass "
        "torch.as_tensor(value), batch axis first",
    ),
}

OUTPUTS: dict[str, tuple[Any, ...]] = {
    "unnamed": (
        refused.Pair, None,
        "[RW001] Pair: forward returns 2 tensors without names\n  → name them in the order in "
        "which they are returned, the action 'actions': outputs=('actions', 'output_2'), with None "
        "for one to leave out",
    ),
    "too few": (
        refused.Pair, ("actions",),
        "[RW001] Pair: outputs names 1 tensors, forward returns 2\n  → give one name for each "
        "tensor, and None for one to leave out",
    ),
    "twice": (
        refused.Pair,
        ("a", "a"),
        "[RW001] Pair: two outputs are called 'a'\n  → give each its own name: outputs=(…)",
    ),
    "all left out": (
        refused.Pair, (None, None),
        "[RW001] outputs= leaves every output out\n  → name at least one",
    ),
    "no tensor": (
        refused.Distribution, None,
        "[RW190] "
        + refused.line(
            refused.Distribution, "return torch.distributions.Normal(self.net(obs), 1.0)"
        )
        + ": forward returns a Normal, expected tensors\n  → return a tensor of it, such as "
          "distribution.mean",
    ),
    "name of an input": (
        refused.SameName, None,
        "[RW021] obs: the name is used by 2 ports"
        "\n  → give every input, output and memory port its own name",
    ),
}  # fmt: skip

DESCRIPTIONS: dict[str, tuple[type[nn.Module], dict[str, Any], str]] = {
    "one normaliser for two inputs": (
        refused.TwoInputs, {"example": TWO, "normalizer": STATISTICS},
        "[RW001] one normaliser, and 2 float inputs: obs, goal\n  → say whose it is: "
        "normalizer={'obs': …}",
    ),
    "normaliser for no input": (
        refused.TwoInputs, {"example": TWO, "normalizer": {"gool": STATISTICS}},
        "[RW001] normalizer= names 'gool', which is not an input\n  → inputs: obs, goal",
    ),
    "about an unknown port": (
        refused.Base, {"about": {"ob": rw.About(unit="m")}},
        "[RW001] about: there is no port 'ob'\n  → ports: obs, actions",
    ),
    "dynamic unknown port": (
        refused.Base, {"dynamic": {"ob": {1: "length"}}},
        "[RW001] dynamic: there is no port 'ob'\n  → ports: obs, actions",
    ),
    "dynamic axis too far": (
        refused.Base, {"dynamic": {"obs": {5: "length"}}},
        "[RW001] dynamic 'obs': axis 5 cannot be dynamic: the example has 2 axes\n  → axes are "
        "counted from 0, and axis 0 is the batch, which is dynamic by itself",
    ),
    "dynamic batch axis": (
        refused.Base, {"dynamic": {"obs": {0: "length"}}},
        "[RW001] dynamic 'obs': axis 0 cannot be dynamic: the example has 2 axes\n  → axes are "
        "counted from 0, and axis 0 is the batch, which is dynamic by itself",
    ),
    "dynamic name": (
        refused.Base, {"example": {"obs": torch.zeros(1, 3, 4)}, "dynamic": {"obs": {1: "a b"}}},
        "[RW001] dynamic 'obs': 'a b' cannot name a dynamic axis\n  → use a word such as "
        "'length'; 'batch' is taken",
    ),
    "table": (
        refused.Base, {"action": rw.Argmax(table=("left", "right"))},
        "[RW030] action: a table of 2 actions for 4 action elements"
        "\n  → pass one number for each element, or one for all",
    ),
    "sizes": (
        refused.Base, {"action": rw.MultiDiscrete(sizes=(2, 3))},
        "[RW030] action: groups of (2, 3) for 4 action elements"
        "\n  → pass one number for each element, or one for all",
    ),
    "bounds": (
        refused.Base, {"action": rw.ScaleToBounds(low=(0, 0, 0), high=(1, 1, 1))},
        "[RW030] action: constants of shape (3,) for 4 action elements"
        "\n  → pass one number for each element, or one for all",
    ),
    "clip": (
        refused.Base, {"action": rw.Clip(low=(0,) * 5, high=1)},
        "[RW030] action: constants of shape (5,) for 4 action elements"
        "\n  → pass one number for each element, or one for all",
    ),
    "statistics": (
        refused.Base, {"normalizer": rw.EpsOutsideRoot(mean=[0] * 3, std=[1] * 3, eps=1e-8)},
        "[RW030] normalizer: the statistics have shape (3,), the input (1, 4)\n  → pass one "
        "mean and one std (or var) for each element of a row",
    ),
    "limits": (
        refused.Base, {"about": {"obs": rw.About(low=(0, 0, 0))}},
        "[RW023] obs: the low limit has shape (3,), a row has (4,)"
        "\n  → give one number, or one for each element of a row",
    ),
    "period": (
        refused.Base, {"period_s": 0.0},
        "[RW020] period_s must be positive, got 0.0"
        "\n  → it is the time between two steps in seconds: 0.02 for 50 Hz",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_that_is_none_is_refused(refuse: Refuse, name: str) -> None:
    example, expected = EXAMPLES[name]
    assert [str(each) for each in refuse(refused.Base(), example=example)] == [expected]


def test_row_without_a_batch_axis_is_answered_with_the_axis(refuse: Refuse) -> None:
    (finding,) = refuse(refused.Base(), example={"obs": torch.zeros(4)})
    assert "first axis of the example must be the batch" in f"{finding.what} {finding.hint}"


@pytest.mark.parametrize("example", [{"obs": torch.zeros(0, 4)}, {0: torch.zeros(1, 4)}])
def test_example_without_rows_or_without_a_name_is_refused(refuse: Refuse, example: Any) -> None:
    (finding,) = refuse(refused.Base(), example=example)
    assert "example" in f"{finding.where} {finding.what}"


def test_export_without_an_example_asks_for_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        rw.export(refused.Base(), tmp_path / "bundle")
    assert str(caught.value) == (
        "[RW001] the example is missing: an export needs a value for every input\n  → pass "
        "example={'obs': torch.zeros(1, 48)}, batch axis first"
    )


def test_missing_input_of_forward_is_named(refuse: Refuse) -> None:
    (finding,) = refuse(refused.TwoInputs(), example=OBS)
    assert finding.code == "RW102"
    assert "missing 1 required positional argument: 'goal'" in finding.what


def test_source_and_keywords_do_not_mix(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="given twice, in the Source and beside it"):
        rw.export(rw.Source(refused.Base(), example=OBS), tmp_path / "bundle", example=OBS)


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs_that_do_not_fit_are_refused(refuse: Refuse, name: str) -> None:
    kind, outputs, expected = OUTPUTS[name]
    assert [str(each) for each in refuse(kind(), example=OBS, outputs=outputs)] == [expected]


def test_every_output_without_a_batch_is_reported(refuse: Refuse) -> None:
    findings = refuse(refused.WithoutBatch(), example=OBS)
    assert [(each.code, each.where) for each in findings] == [("RW113", "scale"), ("RW113", "mean")]
    assert findings[0].what == (
        "shape (4,) stays the same for every batch: it mixes rows, or is constant"
    )


def test_bfloat16_cannot_cross_a_port(refuse: Refuse) -> None:
    findings = refuse(refused.GivesBfloat16(), example=OBS)
    assert [(each.code, each.where) for each in findings] == [("RW022", "actions")]
    assert findings[0].what == "a port cannot have dtype bfloat16"


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_description_that_does_not_fit_is_refused(refuse: Refuse, name: str) -> None:
    kind, description, expected = DESCRIPTIONS[name]
    findings = refuse(kind(), **{"example": OBS} | description)
    assert [str(each) for each in findings] == [expected]


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"memory": ["h"]}, "memory=: expected a mapping from names, got list"),
        ({"memory": "hidden"}, "pass memory={'h': 'hidden'}"),
        ({"about": "rad"}, "about=: expected a mapping from names, got str"),
        ({"about": {"obs": "rad"}}, "expected {'obs': rw.About(unit='rad')}, got 'obs': str"),
        ({"dynamic": {"obs": "length"}}, "dynamic=: expected {'tokens': {1: 'length'}}, got 'obs'"),
        ({"dynamic": 3, "memory": {3: "h"}}, "memory=: expected {'h': 'hidden'}, got 3: str"),
        ({"translations": ["op"]}, "translations: expected a mapping from operators to functions"),
        ({"decompositions": "op"}, "decompositions: expected a mapping from operators"),
    ],
)
def test_mapping_that_is_no_mapping_is_refused(
    tmp_path: Path, keywords: dict[str, Any], said: str
) -> None:
    with pytest.raises(rw.UsageError) as caught:
        rw.export(nn.Linear(4, 2), tmp_path / "b", example={"obs": torch.zeros(1, 4)}, **keywords)
    assert said in str(caught.value)
    assert not (tmp_path / "b").exists()


class WithNothing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 2)

    def forward(self, obs: torch.Tensor, extra: torch.Tensor) -> torch.Tensor:
        action: torch.Tensor = self.net(torch.cat([obs, extra], dim=-1))
        return action


def test_input_without_elements_is_left_out_as_the_hint_says(tmp_path: Path) -> None:
    example = {"obs": torch.zeros(1, 4), "extra": torch.zeros(1, 0)}
    with pytest.raises(rw.UsageError) as caught:
        rw.export(WithNothing(), tmp_path / "b", example=example)
    advice = str(caught.value.findings[0].hint).partition("method=")[2]
    del example["extra"]
    rw.export(WithNothing(), tmp_path / "b", example=example, method=eval(advice))


@pytest.mark.parametrize("batch", ["fixed", 0, -1, True, 2.0])
def test_a_number_of_rows_is_a_whole_number(batch: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="batch: expected a number of rows, got"):
        rw.export(nn.Linear(4, 2), tmp_path / "b", example=OBS, batch=batch)
    assert list(tmp_path.iterdir()) == []


class Joined(nn.Module):
    def forward(self, goal: torch.Tensor, obs: torch.Tensor) -> torch.Tensor:
        return torch.cat([goal, obs], 1) * 2


def test_an_input_without_elements_is_left_out_as_the_hint_says(tmp_path: Path) -> None:
    example = {"goal": torch.zeros(1, 0), **OBS}
    with pytest.raises(UsageError) as caught:
        rw.export(Joined(), tmp_path / "b", example=example)
    _, _, hint = str(caught.value).partition("method=")
    method = eval(hint)
    assert rw.export(Joined(), tmp_path / "b", example=OBS, method=method).certificate.passed
