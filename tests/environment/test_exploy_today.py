"""What Exploy's users write today: hooks, episodes by number, and the flow of its tutorial."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw
from roadworthy.capture.program import Program
from roadworthy.compat.exploy import (
    ExportableActor,
    ExportableEnvironment,
    Group,
    Input,
    Memory,
    Output,
    SessionWrapper,
    add_actor_memory,
    evaluate,
    evaluate_episode,
    export_environment_as_onnx,
)
from roadworthy.compat.exploy.contract import unmet
from roadworthy.environment.capture import capture_environment
from roadworthy.environment.source import EnvironmentSource
from roadworthy.errors import RoadworthyError, UsageError
from tests.environment.eager import differing, facts
from tests.environment.robot import Recurrent, feedforward
from tests.environment.robots import PdFourTicks


class Hooked(PdFourTicks):
    """Its step calls hooks that somebody must have registered."""

    def build(self) -> None:
        super().build()
        self.hooks: dict[str, Callable] = {}
        self.counted = 0

    def register_evaluation_hooks(self, update: Callable, evaluate_substep: Callable) -> None:
        self.hooks = {"update": update, "substep": evaluate_substep}

    def world(self) -> None:
        super().world()
        self.hooks["substep"](self.counted)
        self.hooks["update"]()
        self.counted += 1


class HookedAsBefore(Hooked):
    """An adapter of an earlier release, with a third hook."""

    def register_evaluation_hooks(
        self, update: Callable, reset: Callable, evaluate_substep: Callable
    ) -> None:
        reset()
        super().register_evaluation_hooks(update, evaluate_substep)


@pytest.fixture(scope="module")
def walking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a robot whose step needs hooks; it is the file of `PdFourTicks` as well."""
    folder = tmp_path_factory.mktemp("walking")
    env = Hooked()
    actor = feedforward(PdFourTicks())
    before = facts(env, actor)
    export_environment_as_onnx(env, actor, folder)
    assert differing(before, facts(env, actor)) == []
    return folder


def opened(folder: Path) -> SessionWrapper:
    return SessionWrapper(folder, "policy.onnx", actor=feedforward(PdFourTicks()))


@pytest.mark.parametrize("kind", [Hooked, HookedAsBefore, PdFourTicks])
def test_hooks_are_registered_before_any_step(kind: type[PdFourTicks], walking: Path) -> None:
    env = kind()
    passed, _ = evaluate(env, env.context_manager(), opened(walking), 1, 5, verbose=False)
    assert passed


def test_episodes_and_steps_come_in_the_order_of_upstream(
    walking: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = PdFourTicks()
    passed, last = evaluate(env, env.context_manager(), opened(walking), 2, 20)
    assert passed
    assert isinstance(last, Tensor)
    assert last.shape == (1, 6)
    # An episode is twelve steps long, and ends there: two of them, each driven both ways.
    lines = capsys.readouterr().out.split("\r")
    assert len([each for each in lines if "12/20" in each]) == 4
    assert not [each for each in lines if "13/20" in each]


def test_a_failing_file_fails_by_position_too(walking: Path) -> None:
    env, session = PdFourTicks(), opened(walking)
    with torch.no_grad():
        next(session.get_actor().parameters()).add_(0.1)
    passed, _ = evaluate(env, env.context_manager(), session, 1, 6, False)
    assert not passed
    passed, _ = evaluate_episode(env, env.context_manager(), session, 6, False)
    assert not passed


@pytest.mark.parametrize("numbers", [(20,), (20, False), (20, True, True), (20.0, 5), (-1, 5)])
def test_numbers_of_another_order_are_refused(numbers: tuple, walking: Path) -> None:
    env = PdFourTicks()
    with pytest.raises(UsageError, match=r"num_episodes=… and max_episode_steps=…"):
        evaluate(env, env.context_manager(), opened(walking), *numbers)


def test_the_context_manager_of_another_environment_is_refused(walking: Path) -> None:
    with pytest.raises(UsageError, match="not that of the environment"):
        evaluate(PdFourTicks(), PdFourTicks().context_manager(), opened(walking), 1, 5)


def test_a_memory_knows_its_name_by_its_ports() -> None:
    memory = Memory("arm.last", lambda: torch.zeros(1))
    assert memory.io_name_to_name("memory.arm.last.in") == "arm.last"
    assert memory.io_name_to_name("memory.arm.last.out") == "arm.last"
    assert memory.io_name_to_output_name("memory.arm.last.in") == "memory.arm.last.out"


class LeftAsItWas(PdFourTicks):
    """A reset leaves the target as it was: each step writes it before anything reads it."""

    def build(self) -> None:
        super().build()
        self.context_manager().add_component(Memory("target", lambda: self.target))


class NoReset(LeftAsItWas):
    """Its observations_reset only observes: an episode may begin anywhere."""

    def observations_reset(self) -> Tensor:
        return self.compute_observations()


def test_memory_that_begins_elsewhere_and_is_not_read_is_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    actor = feedforward(PdFourTicks())
    export_environment_as_onnx(LeftAsItWas(), actor, tmp_path)
    session = SessionWrapper(tmp_path, "policy.onnx", actor=actor)
    for env in (LeftAsItWas(), NoReset()):
        for steps in (20, 5):
            passed, _ = evaluate(env, env.context_manager(), session, 2, steps)
            assert passed, capsys.readouterr().out


def test_the_beginning_of_memory_is_in_the_file(walking: Path) -> None:
    model = onnx.load(walking / "policy.onnx")
    (default,) = [each for each in model.graph.initializer if each.name == "memory.last.in"]
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(default), np.float32([[0.3, 0.3]]))
    assert "memory.target.in" not in {each.name for each in model.graph.initializer}
    session = onnxruntime.InferenceSession(walking / "policy.onnx")
    feeds = {"q": np.float32([[0.1, 0.2]]), "v": np.float32([[0.0, 0.5]])}
    feeds |= {
        "ctx.step_count": np.asarray(0, np.int32),
        "memory.target.in": np.zeros((1, 2), np.float32),
    }
    (begins,) = session.run(["obs"], feeds)
    (later,) = session.run(["obs"], feeds | {"memory.last.in": np.float32([[0.7, 0.8]])})
    np.testing.assert_array_equal(begins[0, 4:], np.float32([0.3, 0.3]))
    np.testing.assert_array_equal(later[0, 4:], np.float32([0.7, 0.8]))
    assert "memory.last.in" in opened(walking).input_names


def test_a_file_that_counts_from_one_decides_at_once(walking: Path, tmp_path: Path) -> None:
    env, actor = PdFourTicks(), feedforward(PdFourTicks())
    export_environment_as_onnx(env, actor, tmp_path, first_step_count=1)
    decided: dict[Path, list[int]] = {}
    for folder in (walking, tmp_path):
        session = SessionWrapper(folder, "policy.onnx")
        inputs = {
            port.name: np.zeros(port.shape, np.float32) for port in session.session.get_inputs()
        }
        inputs["memory.last.in"] = np.float32([[0.3, 0.3]])
        decided[folder] = []
        for count in range(1, 10):  # as a controller does that counts before it asks
            session(**inputs | {"ctx.step_count": np.asarray(count, np.int32)})
            if session.get_output_value("obs").any():
                decided[folder].append(count)
    assert decided == {walking: [4, 8], tmp_path: [1, 5, 9]}
    session = SessionWrapper(tmp_path, "policy.onnx", actor=actor)
    assert evaluate(env, env.context_manager(), session, 1, 5, verbose=False)[0]
    with pytest.raises(RoadworthyError):
        rw.load(tmp_path / "policy.onnx")


@pytest.fixture(scope="module")
def program() -> Program:
    env = PdFourTicks()
    return capture_environment(EnvironmentSource(env, feedforward(env)), contract=True).program


def renamed(
    program: Program, names: dict[str, str], metadata: dict[str, str], *, targets: bool = True
) -> Program:
    """The program with other names for its ports; `targets` adds those that the effort lacks."""
    signature = program.signature
    ports = {
        kind: tuple(dataclasses.replace(p, name=names.get(p.name, p.name)) for p in each)
        for kind, each in (("inputs", signature.inputs), ("outputs", signature.outputs))
    }
    if targets:
        ports["outputs"] += tuple(
            dataclasses.replace(ports["outputs"][-1], name=f"output.joint_targets.spot.{kind}")
            for kind in ("pos", "vel")
        )
    return dataclasses.replace(
        program, signature=dataclasses.replace(signature, **ports), metadata=metadata
    )


NAMES = {
    "q": "obj.spot.joints.pos", "v": "obj.spot.joints.vel",
    "torque": "output.joint_targets.spot.effort",
}  # fmt: skip
SAID = {
    "update_rate": "200",
    "obj.spot.joints": json.dumps({"joint_names": ["a", "b"]}),
    "output.joint_targets.spot": json.dumps({"names": ["a", "b"], "stiffness": [], "damping": []}),
}


def test_a_file_as_the_controller_wants_it_has_nothing_unmet(program: Program) -> None:
    assert unmet(renamed(program, NAMES, SAID)) == []


@pytest.mark.parametrize(
    ("rate", "what"),
    [
        (None, "update_rate is missing"),
        ("fast", "expected the ticks in a second, 1 or more, got 'fast'"),
        ("0.5", "1 or more, got '0.5'"),
    ],
)
def test_a_rate_that_the_controller_refuses(rate: str | None, what: str, program: Program) -> None:
    said = {k: v for k, v in SAID.items() if k != "update_rate"}
    (finding,) = unmet(renamed(program, NAMES, said | ({"update_rate": rate} if rate else {})))
    assert (finding.code, finding.where, finding.severity) == ("RW134", "metadata()", "warning")
    assert what in finding.what


def test_names_and_metadata_that_the_controller_does_not_know(program: Program) -> None:
    (finding,) = unmet(renamed(program, NAMES | {"v": "speed"}, SAID))
    assert finding.where == "speed"
    unsaid = {k: v for k, v in SAID.items() if k != "obj.spot.joints"}
    one, other = unmet(renamed(program, NAMES, unsaid))
    assert (one.where, other.where) == ("obj.spot.joints.pos", "obj.spot.joints.vel")
    assert "has no joint_names" in one.what


def test_the_controller_writes_three_targets_or_stops(program: Program) -> None:
    (finding,) = unmet(renamed(program, NAMES, SAID, targets=False))
    assert finding.where == "output.joint_targets.spot"
    assert "have no pos and no vel, and Exploy's controller stops at the first tick" in finding.what


@pytest.mark.filterwarnings("default:.*RW134")
def test_an_export_says_what_the_controller_would_refuse(tmp_path: Path) -> None:
    env = PdFourTicks()
    with pytest.warns(rw.RoadworthyWarning, match="RW134") as said:
        export_environment_as_onnx(env, feedforward(env), tmp_path)
    assert [str(each.message).split(":")[0] for each in said] == [
        "[RW134] metadata()",
        "[RW134] q, v, torque",
    ]


class Tank:
    """A water tank: two levels, a pump for each, an encoder of the levels."""

    def __init__(self) -> None:
        self.levels, self.flows = torch.tensor([[0.4, 0.7]]), torch.zeros(1, 2)
        self.wanted, self.scaled = torch.zeros(1, 2), torch.zeros(1, 2)
        self.encoder = nn.Linear(2, 3)
        self.age = 0

    def observe(self) -> Tensor:
        return torch.cat([self.encoder(self.levels), self.flows, self.wanted], dim=-1)

    def pump(self) -> None:
        self.flows[:] = 0.5 * self.scaled - 0.1 * self.levels

    def empty(self) -> None:
        self.levels[:] = torch.tensor([[0.4, 0.7]])
        self.flows[:], self.wanted[:] = 0.0, 0.0


class TankAdapter(ExportableEnvironment):
    """Every method that upstream asks for, as its tutorial writes them."""

    decimation = 3

    def __init__(self, tank: Tank) -> None:
        super().__init__()
        self.tank = tank

    def compute_observations(self) -> Tensor:
        return self.tank.observe()

    def process_actions(self, actions: Tensor) -> None:
        self.tank.wanted[:] = actions
        self.tank.scaled = 2.0 * actions

    def apply_actions(self) -> None:
        self.tank.pump()

    def step(self, actions: Tensor) -> tuple[Tensor, bool]:
        self.process_actions(actions)
        for _ in range(self.decimation):
            self.apply_actions()
            self.tank.levels += 0.05 * self.tank.flows
        self.tank.age += 1
        ended = self.tank.age % 9 == 0
        if ended:
            self.tank.empty()
        return self.compute_observations(), ended

    def prepare_export(self) -> None:
        pass

    def empty_actor_observations(self) -> Tensor:
        return torch.zeros_like(self.tank.observe())

    def empty_actions(self) -> Tensor:
        return torch.zeros(1, 2)

    def metadata(self) -> dict[str, str]:
        return {"plant": "tank"}

    def register_evaluation_hooks(self, update: Callable, evaluate_substep: Callable) -> None:
        pass

    def get_observation_names(self) -> list[str]:
        return [f"e{i}" for i in range(3)] + ["flow_0", "flow_1", "wanted_0", "wanted_1"]

    def observations_reset(self) -> Tensor:
        return self.tank.observe()


def test_the_flow_of_the_tutorial_runs_to_its_end(tmp_path: Path) -> None:
    torch.manual_seed(0)
    env = TankAdapter(Tank())
    env.context_manager().add_module(env.tank.encoder)
    actor: ExportableActor = Recurrent(nn.LSTM, 7, 2).eval()
    actor(env.empty_actor_observations())
    add_actor_memory(context_manager=env.context_manager(), get_hidden_states_func=actor.get_state)
    env.context_manager().add_components(
        [
            Input("levels", lambda: env.tank.levels, metadata={"unit": "m"}),
            Memory("wanted", lambda: env.tank.wanted),
            Memory("scaled", lambda: env.tank.scaled),
        ]
    )
    flows = [Memory("now", lambda: env.tank.flows), Output("command", lambda: env.tank.scaled)]
    env.context_manager().add_group(Group("flows", flows, metadata={"unit": "m3/s"}))
    export_environment_as_onnx(
        env=env, actor=actor, path=tmp_path, filename="tank.onnx", verbose=False
    )
    session = SessionWrapper(
        onnx_folder=tmp_path, onnx_file_name="tank.onnx", actor=actor, optimize=True
    )
    shared = {
        "env": env, "context_manager": env.context_manager(), "session_wrapper": session,
        "verbose": False, "pause_on_failure": False,
    }  # fmt: skip
    with torch.inference_mode():
        passed, observations = evaluate(num_episodes=2, max_episode_steps=20, **shared)
        again, _ = evaluate_episode(max_num_steps=20, **shared)
        short, _ = evaluate(num_episodes=3, max_episode_steps=4, **shared)
    assert observations.shape == (1, 7)
    assert passed
    assert again
    assert short
