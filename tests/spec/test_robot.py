"""Metadata of a robot: lossless both ways, checked against itself and the ports, all at once."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import roadworthy as rw
from roadworthy.spec.completing import completed
from roadworthy.spec.port import Port
from roadworthy.spec.robot import in_order
from roadworthy.spec.robot_reading import read_metadata, read_robot

ROBOT: dict[str, Any] = {
    "joints": ["hip", "knee"],
    "motors": ["knee", None, "hip"],
    "default_position": [0.1, -0.7853981633974483],
    "stiffness": 40,
    "damping": {"knee": 1e-9, "hip": 0.5},
    "effort_limit": [23.7, 45.43],
    "action": {"joints": ["knee", "hip"], "scale": [0.25, 0.5], "offset": "default_position"},
    "observations": [
        {"name": "joint_pos", "size": 2, "scale": 0.1, "clip": [-5, 5]},
        {"name": "last_action", "size": 2},
    ],
    "commands": {"base_velocity": {"lin_vel_x": [-1, 1.5]}},
    "units": {"position": "rad", "effort": "N·m"},
    "period_s": 0.02,
}
OBS = Port(name="obs", dtype="float32", shape=("batch", 4))
OUT = Port(name="actions", dtype="float32", shape=("batch", 2))


def signature(**parts: Any) -> rw.Signature:
    return rw.Signature(**{"inputs": (OBS,), "outputs": (OUT,)} | parts)


def attached(said: dict[str, Any], **parts: Any) -> rw.Signature:
    return completed(signature(**parts), metadata=read_metadata(said))


def complaints(said: Any) -> list[str]:
    with pytest.raises(rw.UsageError) as caught:
        read_metadata(said)
    return [str(finding) for finding in caught.value.findings]


def test_every_number_survives_json_to_the_last_bit() -> None:
    whole = attached(ROBOT)
    again = rw.Signature.from_json(json.loads(json.dumps(whole.to_json(), allow_nan=False)))
    assert again == whole
    assert again.robot is not None
    assert dict(again.robot.damping) == {"hip": 0.5, "knee": 1e-9}
    assert again.period_s == 0.02
    assert "robot" not in signature().to_json()


def test_names_stand_beside_every_number_whatever_its_order() -> None:
    robot = read_robot(ROBOT)
    assert robot.action is not None
    assert dict(robot.action.scale) == {"knee": 0.25, "hip": 0.5}
    assert dict(robot.action.offset) == {"hip": 0.1, "knee": -0.7853981633974483}
    assert in_order(robot.stiffness, ("knee", None, "hip")) == [40.0, 0.0, 40.0]


def test_the_same_is_said_in_yaml_in_json_and_in_python(tmp_path: Path) -> None:
    (tmp_path / "robot.json").write_text(json.dumps(ROBOT))
    (tmp_path / "robot.yaml").write_text("""
joints: [hip, knee]
motors: [knee, null, hip]
default_position: [0.1, -0.7853981633974483]
stiffness: 40
damping: {knee: 1e-9, hip: 0.5}
effort_limit: [23.7, 45.43]
action: {joints: [knee, hip], scale: [0.25, 0.5], offset: default_position}
observations:
- {name: joint_pos, size: 2, scale: 0.1, clip: [-5, 5]}
- {name: last_action, size: 2}
commands: {base_velocity: {lin_vel_x: [-1, 1.5]}}
units: {position: rad, effort: N·m}
period_s: 0.02
""")
    assert read_metadata(tmp_path / "robot.yaml") == read_metadata(ROBOT)
    assert read_metadata(str(tmp_path / "robot.json")) == read_metadata(ROBOT)


def test_all_complaints_come_at_once() -> None:
    wrong = {
        "joint": [], "joints": ["hip", "hip", 1], "stiffness": [1, 2], "damping": 0,
        "effort_limit": {"hipp": math.nan, "hip": -1, "1": 1}, "motors": ["hip", "toe"],
        "action": {"scal": 1, "scale": [0, 1, "fast"], "applied_by": "me"},
        "observations": [{"name": "x", "size": 0, "clip": [1, 1]}], "units": {"positon": "rad"},
        "period_s": -1, "default_position": math.inf,
    }  # fmt: skip
    said = "\n".join(complaints(wrong))
    for expected in (
        "metadata joint: is not known\n  → did you mean 'joints'?",
        "metadata joints: expected a name, got int 1",
        "metadata joints: 'hip' stands there 2 times",
        "metadata stiffness: 2 numbers for 3 joints",
        "metadata damping: is 0: nothing would calm the joint",
        "metadata effort_limit.hipp: is no joint\n  → did you mean 'hip'?",
        "metadata effort_limit.hip: is -1, below 0",
        "metadata motors: 'toe' is no joint",
        "metadata motors: no motor moves 1",
        "metadata action.scal: is not known\n  → did you mean 'scale'?",
        "metadata action.scale.hip: is 0: the policy could not move the joint",
        "metadata action.scale.1: expected a number, got str 'fast'",
        "metadata action.applied_by: expected controller or policy",
        "metadata observations[0].size: expected a whole number from 1",
        "metadata observations[0].clip: low 1 is not below high 1",
        "metadata units.positon: is not known\n  → did you mean 'position'?",
        "metadata period_s: must be positive, got -1",
        "metadata default_position: is inf",
    ):
        assert expected in said


@pytest.mark.parametrize(
    "said",
    [{}, {"joints": None}, {"joints": "hip"}, {"joints": ["a"], "action": 3},
     {"joints": ["a"], "action": {"joints": [["a"]]}}, {"joints": ["a"], "observations": {"a": 1}},
     {"joints": ["a"], "observations": [3]}, {"joints": ["a"], "commands": {"c": 3}},
     {"joints": ["a"], "commands": 3}, {"joints": ["a"], "units": ["rad"]},
     {"joints": ["a"], "stiffness": "stiff"}, {"joints": [None]}, {1: 2, "joints": ["a"]},
     {"joints": ["a"], "observations": [{"name": 1, "size": 1}]},
     {"joints": ["a"], "commands": {1: {}}}, {"joints": ["a"], "commands": {"c": {1: [0, 1]}}},
     {"joints": [f"j{at}" for at in range(1001)]}],
)  # fmt: skip
def test_whatever_is_written_is_answered_with_findings(said: Any) -> None:
    assert all(text.startswith("[RW026] metadata ") for text in complaints(said))


def test_a_joint_without_a_gain_on_purpose_is_null() -> None:
    robot = read_robot({"joints": ["leg", "wheel"], "stiffness": {"leg": 40, "wheel": None}})
    assert dict(robot.stiffness) == {"leg": 40.0, "wheel": None}
    assert robot.to_json()["stiffness"] == {"leg": 40.0, "wheel": None}


def test_a_key_that_stands_twice_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "robot.yaml"
    path.write_text("joints: [hip]\nstiffness: 40\nstiffness: 4\n")
    assert complaints(path)[0].startswith(
        f"[RW026] {path}:2: the key 'stiffness' stands there twice"
    )


def test_a_yaml_that_builds_objects_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "robot.yaml"
    path.write_text("joints: !!python/object/apply:os.getcwd []\n")
    assert "os.getcwd would run Python" in complaints(path)[0]
    path.write_text("joints: [hip\n")
    assert "robot.yaml:2" in complaints(path)[0]
    path.write_text("- hip\n")
    assert "expected names and values, got list" in complaints(path)[0]


def test_a_yaml_that_means_gigabytes_is_answered_at_once(tmp_path: Path) -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    path = tmp_path / "robot.yaml"
    path.write_text("\n".join([*lines, "joints: [hip]", "stiffness: [*a11]", ""]))
    said = complaints(path)
    assert "its aliases stand for more than 1000000 values" in said[-1]
    assert len(said[-1]) < 300


def test_lengths_are_held_against_the_ports() -> None:
    three = Port(name="actions", dtype="float32", shape=("batch", 3))
    with pytest.raises(rw.UsageError) as caught:
        attached(ROBOT | {"observations": [{"name": "joint_pos", "size": 2, "history": 3}]},
                 outputs=(three,))  # fmt: skip
    said = str(caught.value)
    assert "metadata action.joints: 2 joints, and actions has 3 elements" in said
    assert "the terms have 6 numbers (joint_pos 2 × 3), and obs has 4" in said


def test_element_names_in_another_order_are_a_contradiction() -> None:
    named = Port(name="actions", dtype="float32", shape=("batch", 2),
                 about=rw.About(elements=("hip", "knee")))  # fmt: skip
    with pytest.raises(rw.UsageError, match="the elements of actions are called hip, knee"):
        attached(ROBOT, outputs=(named,))


def test_a_scale_that_the_policy_applies_itself_is_asked_about() -> None:
    both = read_metadata(ROBOT)
    with pytest.raises(rw.UsageError, match="the policy itself ends in ScaleOffset"):
        completed(signature(), metadata=both, steps=["Tanh", "ScaleOffset"])
    action = ROBOT["action"] | {"applied_by": "policy"}
    said = read_metadata(ROBOT | {"action": action})
    whole = completed(signature(), metadata=said, steps=["Tanh", "ScaleOffset"])
    assert whole.robot is not None
    assert whole.robot.action is not None
    assert whole.robot.action.applied_by == "policy"


def test_two_periods_or_frame_skips_are_a_contradiction() -> None:
    with pytest.raises(rw.UsageError) as caught:
        completed(signature(period_s=0.01, frame_skip=4), frame_skip=1,
                  metadata=read_metadata(ROBOT))  # fmt: skip
    assert [finding.code for finding in caught.value.findings] == ["RW345", "RW026"]


@pytest.mark.parametrize("skip", [0, -1, 2.5, True, 10**6])
def test_a_frame_skip_is_a_whole_number_from_one(skip: Any) -> None:
    with pytest.raises(rw.UsageError, match="frame_skip must be a whole number from 1"):
        signature(frame_skip=skip)
