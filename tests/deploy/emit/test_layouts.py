"""The files of other runtimes: these names and numbers, and the very actions of the policy."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from onnx import numpy_helper
from torch import Tensor, nn

import roadworthy as rw
from roadworthy.deploy.emit import LAYOUTS
from roadworthy.deploy.emit import writing as emit_module
from roadworthy.environment import Input, Memory, Output
from tests.environment.robot import feedforward
from tests.environment.robots import PdFourTicks
from tests.spec.test_robot import ROBOT

DEPLOY = """\
joint_names: [hip, knee]
motor_names: [knee, null, hip]
joint_ids_map: [2, 0]
step_dt: 0.02
stiffness: [40.0, 0.0, 40.0]
damping: [1.0e-09, 0.0, 0.5]
default_joint_pos: [0.1, -0.7853981633974483]
commands:
  base_velocity:
    ranges:
      lin_vel_x: [-1.0, 1.5]
actions:
  JointPositionAction:
    clip: null
    joint_names: [knee, hip]
    scale: [0.25, 0.5]
    offset: [-0.7853981633974483, 0.1]
    joint_ids: [1, 0]
observations:
  joint_pos:
    params: {}
    clip: [-5.0, 5.0]
    scale: [0.1, 0.1]
    history_length: 1
  last_action:
    params: {}
    clip: null
    scale: [1.0, 1.0]
    history_length: 1
"""
MJLAB = {
    "run_path": "torch.nn.modules.linear.Linear",
    "joint_names": "hip,knee",
    "joint_stiffness": "40.0,40.0",
    "joint_damping": "0.5,1e-09",
    "default_joint_pos": "0.1,-0.7853981633974483",
    "command_names": "base_velocity",
    "observation_names": "joint_pos,last_action",
    "observation_terms_scale": "0.1,1.0",
    "observation_terms_flatten_history_dim": "1.0,1.0",
    "observation_terms_history_length": "0,0",
    "observation_terms_clip": "-5.0;5.0,-inf;inf",
    "action_scale": "0.5,0.25",
}
EXPLOY = {
    "exploy_version": '"0.1.0"',
    "model_source": '{"roadworthy": "tests.deploy.emit.test_layouts.Named"}',
    "update_rate": "50",
    "decimation": "4",
    "first_step_count": "1",
    "obj.leg.joints": '{"joint_names": ["hip", "knee"]}',
    # An effort is all that the motors get: gains would pull the joints to zero besides.
    "output.joint_targets.leg": '{"type": "joint_targets", "names": ["hip", "knee"], '
    '"stiffness": [0.0, 0.0], "damping": [0.0, 0.0]}',
}
OBS = torch.zeros(1, 4)


class Lstm(nn.Module):
    """Two memories of different layouts, and a masked choice."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.LSTM(4, 3), nn.Linear(3, 5)

    def forward(self, obs: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        features, (h, c) = self.rnn(obs.unsqueeze(0), (h, c))
        return self.head(features.squeeze(0)), h, c


class Named(PdFourTicks):
    """A robot with Exploy's names, whose memory begins at 0.3."""

    def build(self) -> None:
        self.q, self.v, self.last = (torch.zeros(1, 2) for _ in range(3))
        self.target, self.torque = torch.zeros(1, 2), torch.zeros(1, 2)
        self.context_manager().add_components(
            [
                Input("obj.leg.joints.pos", lambda: self.q),
                Input("obj.leg.joints.vel", lambda: self.v),
                Memory("last", lambda: self.last),
                Output("output.joint_targets.leg.effort", lambda: self.torque),
            ]
        )


def action_in_joint_order() -> dict[str, Any]:
    scale = {"hip": 0.5, "knee": 0.25}
    return ROBOT | {"action": {"scale": scale, "offset": "default_position"}}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bundles of every kind, each exported once."""
    torch.manual_seed(0)
    root = tmp_path_factory.mktemp("emitting")
    rw.export(nn.Linear(4, 2), root / "leg", example={"obs": OBS}, metadata=ROBOT)
    rw.export(nn.Linear(4, 2), root / "walker", example={"input": OBS},
              metadata=action_in_joint_order())  # fmt: skip
    rw.export(nn.Linear(4, 5), root / "choices", example={"obs": OBS},
              action=rw.MultiDiscrete(sizes=(2, 3)))  # fmt: skip
    rw.export(
        Lstm(), root / "lstm", example={"obs": OBS, "mask": torch.ones(1, 5, dtype=torch.bool)},
        memory={"h": torch.zeros(1, 1, 3), "c": torch.zeros(1, 1, 3)},
        action=rw.Argmax(mask="mask"),
    )  # fmt: skip
    env = Named()
    said = {key: ROBOT[key] for key in ("joints", "stiffness", "damping", "period_s")}
    rw.export(env, root / "env", actor=feedforward(env), metadata=said)
    return root


def model(folder: Path) -> onnx.ModelProto:
    (path,) = folder.rglob("*.onnx")
    return onnx.load(path)


def metadata(folder: Path) -> dict[str, str]:
    found = {entry.key: entry.value for entry in model(folder).metadata_props}
    assert len(found.pop("roadworthy.bundle")) == 64
    return found


def ports(folder: Path) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    graph = model(folder).graph
    inputs, outputs = (
        {
            port.name: [dim.dim_param or dim.dim_value for dim in port.type.tensor_type.shape.dim]
            for port in side
        }
        for side in (graph.input, graph.output)
    )
    return inputs, outputs


def constants(folder: Path) -> dict[str, list[float]]:
    graph = model(folder).graph
    outputs = {port.name for port in graph.output}
    tensors = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    return {name: tensor.ravel().tolist() for name, tensor in tensors.items() if name in outputs}


def test_unitree_gets_deploy_yaml_and_one_row(place: Path) -> None:
    made = rw.emit(place / "leg", "unitree")
    assert made == place / "leg.unitree"
    assert (made / "params" / "deploy.yaml").read_text() == DEPLOY
    assert ports(made) == ({"obs": [1, 4]}, {"actions": [1, 2]})


def test_unitree_is_not_told_to_scale_what_the_policy_scales(tmp_path: Path) -> None:
    action = {"scale": 0.25, "offset": [1, 2], "applied_by": "policy"}
    rw.export(nn.Linear(4, 2), tmp_path / "b", example={"obs": OBS},
              action=rw.ScaleOffset(scale=0.25, offset=(1.0, 2.0)),
              metadata=ROBOT | {"action": action})  # fmt: skip
    text = (rw.emit(tmp_path / "b", "unitree") / "params" / "deploy.yaml").read_text()
    assert "scale: [1.0, 1.0]\n    offset: [0.0, 0.0]\n    joint_ids: null" in text


def test_mjlab_gets_its_metadata_unrounded(place: Path) -> None:
    made = rw.emit(place / "walker", "mjlab")
    assert metadata(made) == MJLAB
    assert ports(made) == ({"obs": ["batch", 4]}, {"actions": ["batch", 2]})


def test_exploy_gets_the_groups_and_the_targets_of_its_controller(place: Path) -> None:
    made = rw.emit(place / "env", "exploy")
    assert metadata(made) == EXPLOY
    targets = [f"output.joint_targets.leg.{kind}" for kind in ("effort", "pos", "vel")]
    assert [name for name in ports(made)[1] if name.startswith("output.")] == targets


def test_exploys_controller_gets_the_very_outputs_of_the_bundle_from_its_first_tick_on(
    place: Path,
) -> None:
    """As the controller does it: it counts before it asks, and leaves out what has a value."""
    made = rw.emit(place / "env", "exploy")
    session = ort.InferenceSession(made / "policy.onnx", providers=["CPUExecutionProvider"])
    policy, rng = rw.load(place / "env"), np.random.default_rng(0)
    outputs = [port.name for port in session.get_outputs()]
    held = {port.name: port.shape for port in session.get_inputs()}
    begun = {port.name for port in session.get_overridable_initializers()}
    assert begun == {"memory.last.in"}  # of all memory the one that does not begin with zeros
    memory: dict[str, Any] = {
        name: np.zeros(shape, np.float32)
        for name, shape in held.items()
        if name.startswith("memory.") and name not in begun
    }
    for tick in range(1, 10):
        state = {
            f"obj.leg.joints.{kind}": rng.normal(size=(1, 2)).astype(np.float32)
            for kind in ("pos", "vel")
        }
        clock = {"ctx.step_count": np.asarray(tick, np.int32)}
        given = dict(zip(outputs, session.run(None, state | memory | clock), strict=True))
        memory = {f"{name[:-4]}.in": value for name, value in given.items() if ".out" in name}
        for name, value in policy.step(state).items():
            assert value.tobytes() == given[name].tobytes(), (tick, name)
        assert not given["output.joint_targets.leg.pos"].any()
    assert np.abs(given["output.joint_targets.leg.effort"]).max() > 0.1


def test_mlagents_gets_its_ports_and_constants(place: Path) -> None:
    made = rw.emit(place / "leg", "mlagents")
    assert ports(made) == (
        {"obs_0": ["batch", 4]},
        {
            "version_number": [1], "memory_size": [1], "continuous_actions": ["batch", 2],
            "continuous_action_output_shape": [1],
            "deterministic_continuous_actions": ["batch", 2],
        },
    )  # fmt: skip
    assert constants(made) == {
        "version_number": [3.0], "memory_size": [0.0], "continuous_action_output_shape": [2.0],
    }  # fmt: skip
    assert metadata(made) == {"roadworthy.obs_0": "obs"}


def test_mlagents_gets_memory_masks_and_choices(place: Path) -> None:
    made = rw.emit(place / "lstm", "mlagents")
    inputs, outputs = ports(made)
    assert inputs == {
        "obs_0": ["batch", 4], "action_masks": ["batch", 5], "recurrent_in": ["batch", 1, 6],
    }  # fmt: skip
    assert outputs["recurrent_out"] == ["batch", 1, 6]
    assert outputs["discrete_actions"] == ["batch", 1]
    assert constants(made) == {
        "version_number": [3.0], "memory_size": [6.0], "discrete_action_output_shape": [5.0],
    }  # fmt: skip


def test_memory_and_masks_mean_in_unity_what_they_mean_here(place: Path) -> None:
    """By hand: two rows, a mask that forbids, and memory fed back as Unity does."""
    made = rw.emit(place / "lstm", "mlagents")
    session = ort.InferenceSession(made / "policy.onnx", providers=["CPUExecutionProvider"])
    policy, rng = rw.load(place / "lstm"), np.random.default_rng(0)
    memory = np.zeros((2, 1, 6), np.float32)
    for _ in range(6):
        obs = rng.normal(size=(2, 4)).astype(np.float32)
        mask = rng.random((2, 5)) < 0.4
        mask[:, 0] = True
        chosen, memory = session.run(
            ["deterministic_discrete_actions", "recurrent_out"],
            {"obs_0": obs, "action_masks": mask.astype(np.float32), "recurrent_in": memory},
        )
        expected = policy.step({"obs": obs, "mask": mask})["actions"]
        assert chosen[:, 0].tolist() == expected.tolist()


def test_godot_gets_one_for_the_chosen_and_nothing_for_the_others(place: Path) -> None:
    made = rw.emit(place / "choices", "godot")
    inputs, outputs = ports(made)
    assert inputs == {"obs": ["batch", 4], "state_ins": ["batch"]}
    assert outputs == {"output": ["batch", 5], "state_outs": ["batch"]}
    session = ort.InferenceSession(made / "policy.onnx", providers=["CPUExecutionProvider"])
    obs = np.random.default_rng(0).normal(size=(1, 4)).astype(np.float32)
    output, state = session.run(None, {"obs": obs, "state_ins": np.ones(1, np.float32)})
    first, second = rw.load(place / "choices").step({"obs": obs})["actions"][0]
    expected = np.zeros((1, 5), np.float32)
    expected[0, first] = expected[0, 2 + second] = 1
    assert np.array_equal(output, expected)
    assert state.tolist() == [1.0]


@pytest.mark.parametrize(
    ("bundle", "layout", "message"),
    [
        ("lstm", "godot", "the policy remembers h, c, and the runtime feeds nothing back"),
        ("lstm", "unitree", "the bundle says nothing about a robot"),
        ("leg", "mjlab", "the action has another order than the joints"),
        ("leg", "exploy", "the controller runs whole environments"),
        ("env", "mlagents", "the policy has two rates (ctx.step_count)"),
        ("env", "unitree", "the metadata has no motors"),
    ],
)
def test_what_a_layout_cannot_hold_is_refused_and_leaves_nothing(
    place: Path, bundle: str, layout: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(rw.UsageError) as caught:
        rw.emit(place / bundle, layout, tmp_path / "out")
    assert message in str(caught.value)
    assert {finding.code for finding in caught.value.findings} == {"RW027"}
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_layout_is_answered_with_the_nearest(place: Path) -> None:
    with pytest.raises(rw.UsageError, match="did you mean 'unitree'"):
        rw.emit(place / "leg", "unitre")


@pytest.mark.parametrize("layout", ["unitree", "mlagents", "godot"])
def test_same_bundle_same_bytes_and_sums_of_its_own(
    place: Path, layout: str, tmp_path: Path
) -> None:
    before = {path: path.read_bytes() for path in (place / "leg").iterdir()}
    once, twice = (rw.emit(place / "leg", layout, tmp_path / name) for name in ("a", "b"))
    for path in once.rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (twice / path.relative_to(once)).read_bytes()
    assert {path: path.read_bytes() for path in (place / "leg").iterdir()} == before
    for line in (once / "SHA256SUMS").read_text().splitlines():
        expected, name = line.split("  ")
        assert hashlib.sha256((once / name).read_bytes()).hexdigest() == expected
    files = {p.relative_to(once).as_posix() for p in once.rglob("*") if p.is_file()}
    assert files == {"SHA256SUMS", *LAYOUTS[layout].files}


def test_a_folder_with_something_else_in_it_is_left_alone(place: Path, tmp_path: Path) -> None:
    (tmp_path / "game").mkdir()
    (tmp_path / "game" / "main.gd").write_text("extends Node")
    with pytest.raises(rw.BundleError, match="holds something else, which would be lost"):
        rw.emit(place / "leg", "godot", tmp_path / "game")
    assert (tmp_path / "game" / "main.gd").exists()


def test_a_file_that_acts_otherwise_is_not_written(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check is real: a policy of other weights in place of the bundle's is noticed."""
    real = emit_module.load
    monkeypatch.setattr(emit_module, "load", lambda _: real(place / "walker-twin"))
    torch.manual_seed(9)
    rw.export(nn.Linear(4, 2), place / "walker-twin", example={"obs": OBS})
    with pytest.raises(rw.ExportError, match=r"the file for godot gives .* at step 0, the policy"):
        rw.emit(place / "leg", "godot", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
